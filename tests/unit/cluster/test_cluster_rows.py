"""Rows are their segments, bit for bit, and the proof of it refuses anything else."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.cluster.rows import prove, row_of, rows_of, segment_of, silent_row
from lego_rl.engine.protocol import Timings, WeightSpan
from lego_rl.engine.scripted import SyntheticRoutes, synthetic_routes
from lego_rl.errors import CaptureError
from lego_rl.gateway.segments import build_segments
from lego_rl.gateway.trajectory import Accounting, Generation, Segment, Trajectory

ROUTES = SyntheticRoutes(layers=2, top_k=2, experts=8)


@st.composite
def generations(draw: st.DrawFn) -> list[Generation]:
    """Model calls that go on with one another, from the start or from any earlier answer."""
    routed, made = draw(st.booleans()), []
    for index in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from([None, *range(index)]))
        sampled, context = draw(st.integers(1, 6)), draw(st.integers(1, 5))
        cut = draw(st.integers(0, sampled))
        spans = [WeightSpan(3, 0, cut), WeightSpan(4, cut, sampled)]
        rows = context + sampled - (parent is None)
        made.append(
            Generation(
                call_id=f"call-{index}",
                parent=parent,
                context_ids=np.arange(context, dtype=np.int32) + 100 * index,
                token_ids=np.arange(sampled, dtype=np.int32) + 1_000 * (index + 1),
                logprobs=-np.arange(1, sampled + 1, dtype=np.float32) / 7 - index,
                finish_reason="stop",
                weight_versions=tuple(span for span in spans if span.start < span.end),
                timings=Timings(),
                role="main",
                fate=draw(st.sampled_from(["delivered", "delivered", "superseded"])),
                routes=synthetic_routes(range(index, index + rows), ROUTES) if routed else None,
                routes_recorded=rows if routed else 0,
            )
        )
    return made


def trajectory(calls: list[Generation]) -> Trajectory:
    return Trajectory(build_segments(calls), tuple(calls), (), (), Accounting())


def queued(recorded: Trajectory) -> list[dict[str, Any]]:
    """What the trainer reads."""
    return [
        {
            "prompts": row.prompt_ids.astype(np.int64),
            "responses": row.response_ids.astype(np.int64),
            "response_mask": row.response_mask.astype(np.int64),
            "rollout_log_probs": row.logprobs,
        }
        | ({} if row.routes is None else {"routed_experts": np.pad(row.routes, ((0, 1), (0, 0), (0, 0))).astype(int)})
        for row in rows_of(recorded)
    ]


def same(a: Segment, b: Segment) -> None:
    for field in dataclasses.fields(Segment):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype and np.array_equal(mine, other), field.name
        else:
            assert mine == other, field.name


@given(generations())
def test_a_row_gives_its_segment_back(calls: list[Generation]) -> None:
    recorded = trajectory(calls)
    rows = rows_of(recorded)
    assert len(rows) == len(recorded.segments)
    for row, segment in zip(rows, recorded.segments, strict=True):
        same(segment_of(row), segment)
        assert row.response_mask[0] == 1
        assert sum(span.count for span in row.spans) == segment.loss_mask.sum()
        by_call = {call.call_id: call for call in calls}
        for span in row.spans:
            call = by_call[span.call_id]
            at = slice(span.position, span.position + span.count)
            here = slice(span.start, span.start + span.count)
            assert np.array_equal(row.response_ids[here], call.token_ids[at])
            assert np.array_equal(row.logprobs[here], call.logprobs[at])
    assert not rows or sum(row.weight for row in rows) == pytest.approx(1.0)


@given(generations(), st.data())
def test_the_proof_takes_nothing_else(calls: list[Generation], data: st.DataObject) -> None:
    recorded = trajectory(calls)
    rows = queued(recorded)
    prove(rows, recorded, "trial")
    if not rows:
        return
    with pytest.raises(CaptureError, match="trained segments and"):
        prove(rows[:-1], recorded, "trial")
    row = data.draw(st.sampled_from(rows))
    name = data.draw(st.sampled_from(sorted(row)))
    row[name] = row[name].copy()
    row[name].flat[0] += 1
    with pytest.raises(CaptureError, match=f"has other {name} than its record"):
        prove(rows, recorded, "trial")


def test_a_segment_that_trains_its_first_token_is_refused() -> None:
    (segment,) = build_segments([next(iter(_one()))])
    with pytest.raises(CaptureError, match="nothing precedes"):
        row_of(dataclasses.replace(segment, loss_mask=np.ones_like(segment.loss_mask)), 1.0)
    with pytest.raises(CaptureError, match="entries for"):
        row_of(dataclasses.replace(segment, logprobs=segment.logprobs[1:]), 1.0)
    with pytest.raises(CaptureError, match="routes for"):
        row_of(dataclasses.replace(segment, routes=np.zeros((1, 2, 2), np.uint8)), 1.0)


def test_a_silent_row_trains_nothing() -> None:
    row = silent_row(np.array([5, 6], np.int32), np.zeros((9, 3, 2), np.uint8))
    assert not row.response_mask.any() and row.spans == () and row.versions is None
    assert row.routes is not None and row.routes.shape == (2, 3, 2)


def _one() -> list[Generation]:
    return [
        Generation(
            call_id="only",
            parent=None,
            context_ids=np.arange(3, dtype=np.int32),
            token_ids=np.arange(4, dtype=np.int32),
            logprobs=np.full(4, -1.0, np.float32),
            finish_reason="stop",
            weight_versions=(WeightSpan(0, 0, 4),),
            timings=Timings(),
            role="main",
            fate="delivered",
        )
    ]
