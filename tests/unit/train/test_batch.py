"""From trials to tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_moe import segment

from lego_rl.errors import CaptureError
from lego_rl.gateway.trajectory import Segment
from lego_rl.train.batch import MicroBatch, Row, TrainingTrial, plan, select
from lego_rl.train.reconcile import trained_tokens

CPU = torch.device("cpu")


def trial(name: str, group: str, reward: Any, *segments: Segment) -> TrainingTrial:
    return TrainingTrial(name, group, reward, segments)


def simple(length: int = 6, trained: int = 2, seed: int = 0, **kw: Any) -> Segment:
    ids = np.random.default_rng(seed).integers(1, 50, length)
    mask = [0] * (length - trained) + [1] * trained
    return segment(ids.tolist(), mask, [-0.5] * length, **kw)


def test_every_left_out_trial_is_counted_with_its_reason() -> None:
    one = simple()
    chosen = select(
        [
            trial("a0", "a", 1, one),
            trial("a1", "a", 0, one, one),
            trial("a2", "a", None, one),
            trial("b0", "b", 1, one),
            trial("c0", "c", 0, one),
            trial("c1", "c", 0, one),
            trial("d0", "d", 0),
            trial("d1", "d", 1, one),
        ],
        updates=1,
    )
    assert chosen.trials == 3
    assert chosen.excluded_trials == {"no_reward": 1, "group_too_small": 1, "one_verdict": 2, "no_tokens": 1}
    assert chosen.excluded_tokens == {"no_reward": 2, "group_too_small": 2, "one_verdict": 4, "no_tokens": 0}
    assert chosen.trained_tokens == 8
    assert [row.trial_id for row in chosen.silent] == ["b0", "c0", "c1"]


def test_a_trial_is_split_evenly_over_the_segments_that_have_something_to_train() -> None:
    nothing = segment([1, 2, 3], [0, 0, 0])
    chosen = select([trial("a", "g", 1, simple(), nothing, simple()), trial("b", "g", 0, simple())], 1)
    assert [(row.trial_id, row.index, row.scale) for row in chosen.updates[0]] == [
        ("a", 0, 0.5),
        ("a", 2, 0.5),
        ("b", 0, 1.0),
    ]


def test_updates_take_whole_groups_in_order() -> None:
    everyone = [trial(f"{g}{n}", g, n, simple()) for n in (0, 1) for g in "abcd"]
    chosen = select(everyone, updates=2)
    assert [{row.trial_id[0] for row in rows} for rows in chosen.updates] == [{"a", "b"}, {"c", "d"}]


def test_no_trials_at_all() -> None:
    assert select([], 2).updates == ((), ())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (segment([1, 2], [1, 1], [-1, -1]), "nothing precedes it"),
        (segment([1, 2], [0, 1], [0, 0.5]), "not the log of a probability"),
        (segment([1, 2], [0, 1], [0, -np.inf]), "not the log of a probability"),
        (
            Segment(
                np.zeros(3, np.int32),
                np.ones(2, np.uint8),
                *[np.zeros(3, np.float32)] * 2,  # type: ignore[arg-type]
                *[np.zeros(3, np.int32)] * 2,
                (),
                None,
                0,
            ),
            "entries for 3 tokens",
        ),
    ],
)
def test_a_segment_that_contradicts_itself_is_refused(broken: Segment, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        select([trial("a", "g", 0, broken), trial("b", "g", 1, simple())], 1)


def test_a_trial_that_counts_for_nothing_is_not_even_looked_at() -> None:
    broken = segment([1, 2], [1, 1], [-1, -1])
    assert select([trial("a", "g", None, broken), trial("b", "g", 1, simple())], 1).excluded_trials["no_reward"] == 1


def rows_of(segments: Sequence[Segment]) -> list[Row]:
    return [Row(f"t{i}", 0, s, 1.0, 1.0) for i, s in enumerate(segments)]


@st.composite
def families(draw: st.DrawFn) -> list[Segment]:
    """Segments that share beginnings of tokens and of routes, of all lengths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    trunk = rng.integers(1, 50, 60)
    trunk_routes = rng.integers(0, 4, (60, 2, 2)).astype(np.uint8)
    made = []
    for _ in range(draw(st.integers(1, 7))):
        shared, own = draw(st.integers(0, 60)), draw(st.integers(3, 30))
        ids = np.concatenate([trunk[:shared], rng.integers(1, 50, own)])
        mask = np.concatenate([np.zeros(shared + 1, int), rng.integers(0, 2, own - 1)])
        mask[-1] = 1
        routes = np.concatenate([trunk_routes[:shared], rng.integers(0, 4, (own, 2, 2)).astype(np.uint8)])[:-1]
        made.append(segment(ids.tolist(), mask.tolist(), [-0.5] * len(ids), routes))
    return made


@given(families(), st.integers(1, 200), st.sampled_from(["replay", "own"]))
@settings(max_examples=60)
def test_tensors_hold_exactly_what_was_recorded(segments: list[Segment], budget: int, routing: Any) -> None:
    batches = plan(rows_of(segments), budget, routing=routing, device=CPU)
    seen = []
    for batch in batches:
        assert batch.positions <= budget or len(batch.rows) == 1
        for b, row in enumerate(batch.rows):
            n, s = row.length, row.segment
            assert batch.input_ids_BT[b, :n].tolist() == s.token_ids[:-1].tolist()
            assert batch.target_ids_BT[b, :n].tolist() == s.token_ids[1:].tolist()
            assert batch.mask_BT[b].tolist() == [*s.loss_mask[1:].astype(bool), *[False] * (batch.mask_BT.shape[1] - n)]
            assert batch.recorded_BT[b].tolist() == [i < n for i in range(batch.mask_BT.shape[1])]
            if batch.experts_BTEK is not None:
                assert s.routes is not None
                assert (batch.experts_BTEK[b, :n].numpy() == s.routes).all()
            assert torch.equal(batch.input_ids_BT[b, : batch.shared], batch.input_ids_BT[0, : batch.shared])
            assert not batch.mask_BT[b, : batch.shared].any()
            if batch.experts_BTEK is not None:
                assert torch.equal(batch.experts_BTEK[b, : batch.shared], batch.experts_BTEK[0, : batch.shared])
            seen.append(row.trial_id)
    assert sorted(seen) == sorted(f"t{i}" for i in range(len(segments)))


@given(families(), st.integers(1, 300))
@settings(max_examples=60)
def test_the_auditor_is_shown_every_trained_token_once(segments: list[Segment], budget: int) -> None:
    shown = trained_tokens(plan(rows_of(segments), budget, routing="replay", device=CPU))
    expected = sorted(
        (s.calls[s.call_ids[i]], int(s.call_positions[i]), int(s.token_ids[i]), float(s.logprobs[i]))
        for s in segments
        for i in np.flatnonzero(s.loss_mask)
    )
    tokens = zip(
        shown.call_ids, shown.positions.tolist(), shown.token_ids.tolist(), shown.logprobs.tolist(), strict=True
    )
    assert sorted(tokens) == expected


def test_a_common_beginning_counts_once() -> None:
    head = list(range(1, 41))
    rows = rows_of([segment([*head, n, 5, 6], [0] * 41 + [1, 1], [-0.5] * 43) for n in range(4)])
    (batch,) = plan(rows, 60, routing="own", device=CPU)
    assert batch.shared == 40
    assert batch.positions == 40 + 4 * 2
    assert len(plan(rows, 47, routing="own", device=CPU)) == 2


def test_routes_that_differ_end_the_common_beginning() -> None:
    head = list(range(1, 41))
    routes = np.zeros((42, 1, 2), np.uint8)
    other = routes.copy()
    other[30] = 1
    rows = rows_of([segment([*head, 1, 5, 6], [0] * 41 + [1, 1], [-0.5] * 43, r) for r in (routes, other)])
    assert MicroBatch.of(rows, routing="replay", device=CPU).shared == 30
    assert MicroBatch.of(rows, routing="own", device=CPU).shared == 40


def test_routes_of_different_shapes_are_refused() -> None:
    rows = rows_of([simple(routes=np.zeros((5, 2, 2), np.uint8)), simple(routes=np.zeros((5, 3, 2), np.uint8))])
    with pytest.raises(CaptureError, match="routes of shapes"):
        MicroBatch.of(rows, routing="replay", device=CPU)
