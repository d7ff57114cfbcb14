"""The capture laws, checked against what the engine was given and returned."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from gateway_kit import ROUTES, VERSION

from lego_rl.engine.protocol import Sample
from lego_rl.engine.scripted import synthetic_routes
from lego_rl.gateway.store import load_segments, read_trajectory, write_trajectory
from lego_rl.gateway.trajectory import Segment, Trajectory


def check_laws(
    trajectory: Trajectory,
    samples: Sequence[Sample],
    delivered: set[str],
    trains: set[str] | None = None,
    cut: Mapping[str, int] | None = None,
) -> None:
    """Laws 1 to 4 and full routes.

    Args:
        trajectory: What the gateway captured.
        samples: Every answer of the engine, in the order of the calls' start.
        delivered: Calls whose answer was delivered.
        trains: Those of them that have to be trained; all, if not given.
        cut: Of the calls of which a prefix was delivered: its tokens.
    """
    trains = delivered if trains is None else trains
    by_call = {sample.call_id: sample for sample in samples}
    assert [each.call_id for each in trajectory.generations] == [sample.call_id for sample in samples]
    assert {each.call_id for each in trajectory.generations if each.fate == "delivered"} == delivered
    for index, generation in enumerate(trajectory.generations):
        assert tuple(trajectory.prompt_ids(index)) == by_call[generation.call_id].prompt_ids
    counts = {sample.call_id: len(sample.token_ids) for sample in samples} | dict(cut or {})
    trained: set[tuple[str, int]] = set()
    for segment in trajectory.segments:
        here = _trained_tokens(segment, by_call)
        assert here
        assert not here & trained
        trained |= here
        assert segment.route_coverage == 1.0
        assert segment.routes is not None
        assert np.array_equal(segment.routes, synthetic_routes(segment.token_ids[:-1].tolist(), ROUTES))
    assert trained == {(call, at) for call in trains for at in range(counts[call])}
    accounting = trajectory.accounting
    assert accounting.calls == len(samples)
    assert accounting.sampled_tokens == sum(len(sample.token_ids) for sample in samples)
    assert accounting.delivered_tokens == sum(counts[call] for call in delivered)
    assert accounting.trainable_tokens == len(trained)
    assert sum(accounting.excluded.values()) == accounting.sampled_tokens - accounting.trainable_tokens


def check_round_trip(trajectory: Trajectory) -> None:
    """What is read from disk is what was written."""
    with TemporaryDirectory() as folder:
        write_trajectory(trajectory, Path(folder), harness="h", version="1", session_id="t")
        again = read_trajectory(Path(folder))
        assert_same_segments(load_segments(Path(folder)), trajectory.segments)
    assert_same_segments(again.segments, trajectory.segments)
    assert again.conversations == trajectory.conversations
    assert again.tools == trajectory.tools
    assert again.accounting == trajectory.accounting


def assert_same_segments(one: Sequence[Segment], two: Sequence[Segment]) -> None:
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        for name, value in vars(b).items():
            other = getattr(a, name)
            if isinstance(value, np.ndarray):
                assert other.dtype == value.dtype
                assert np.array_equal(other, value)
            else:
                assert other == value


def _trained_tokens(segment: Segment, by_call: dict[str, Sample]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    ids = segment.token_ids.tolist()
    for position in np.flatnonzero(segment.loss_mask).tolist():
        call = segment.calls[segment.call_ids[position]]
        at = int(segment.call_positions[position])
        sample = by_call[call]
        assert position == len(sample.prompt_ids) + at
        assert tuple(ids[:position]) == (*sample.prompt_ids, *sample.token_ids[:at])
        assert ids[position] == sample.token_ids[at]
        assert segment.logprobs[position] == sample.logprobs[at]
        assert segment.versions[position] == VERSION
        found.add((call, at))
    context = segment.loss_mask == 0
    assert not segment.logprobs[context].any()
    for unset in (segment.versions, segment.call_ids, segment.call_positions):
        assert (unset[context] == -1).all()
    return found
