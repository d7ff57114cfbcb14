"""Segments as rows of verl's training batch, and back.

Invariant: a row holds its segment exactly. Ids, mask, behaviour log-probs, routes and versions go in as the gateway
recorded them and can be read back bit for bit; nothing is padded, cut or made up here.

The prompt of a row is what precedes the first trained token, so the response begins with one, which verl's
multi-segment advantages rely on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_rl.errors import CaptureError
from lego_rl.gateway.trajectory import Segment, Trajectory

_FIX = "the trajectory is damaged: leave the trial out and report it"


@dataclass(frozen=True)
class CallSpan:
    """Consecutive trained tokens of a response that one engine call sampled under one weight version.

    Attributes:
        call_id: The call.
        start: Position of the first of them in the response.
        position: Its position in the call's `Sample.token_ids`.
        count: How many there are.
        version: Weight version.
    """

    call_id: str
    start: int
    position: int
    count: int
    version: int

    def packed(self) -> tuple[str, int, int, int, int]:
        """As plain values, for the queue."""
        return self.call_id, self.start, self.position, self.count, self.version


@dataclass(frozen=True)
class Row:
    """One row of a training batch.

    Attributes:
        prompt_ids: ``[P]`` int32, at least one.
        response_ids: ``[R]`` int32, at least one.
        response_mask: ``[R]`` uint8; 1 where the policy sampled the token and it is trained in this row.
        logprobs: ``[R]`` float32 behaviour log-probs; 0.0 where the mask is 0.
        routes: ``[P + R - 1, layers, top_k]`` uint8, or ``None``.
        routes_recorded: Rows of `routes` that an engine call recorded.
        spans: Which call sampled which trained tokens, in order; they cover the trained tokens.
        weight: 1 / rows of the trial that train.
    """

    prompt_ids: NDArray[np.int32]
    response_ids: NDArray[np.int32]
    response_mask: NDArray[np.uint8]
    logprobs: NDArray[np.float32]
    routes: NDArray[np.uint8] | None
    routes_recorded: int
    spans: tuple[CallSpan, ...]
    weight: float

    @property
    def versions(self) -> tuple[int, int] | None:
        """The first and the last weight version that a trained token was sampled under."""
        versions = [span.version for span in self.spans]
        return (min(versions), max(versions)) if versions else None


def rows_of(trajectory: Trajectory) -> list[Row]:
    """The rows that a trial trains, each with the same share of its weight.

    Raises:
        CaptureError: A segment contradicts itself.
    """
    trained = [segment for segment in trajectory.segments if segment.loss_mask.any()]
    return [row_of(segment, 1.0 / len(trained)) for segment in trained]


def row_of(segment: Segment, weight: float) -> Row:
    """The row of a segment that trains.

    Raises:
        CaptureError: It contradicts itself.
    """
    length = len(segment.token_ids)
    arrays = (segment.loss_mask, segment.logprobs, segment.versions, segment.call_ids, segment.call_positions)
    if any(len(array) != length for array in arrays):
        raise CaptureError(f"a segment has arrays of {[len(a) for a in arrays]} entries for {length} tokens", _FIX)
    first = int(segment.loss_mask.argmax())
    if first == 0:
        raise CaptureError("a segment trains its first token, which nothing precedes, or none", _FIX)
    if segment.routes is not None and len(segment.routes) != length - 1:
        raise CaptureError(f"a segment has {len(segment.routes)} routes for {length} tokens", _FIX)
    mask = segment.loss_mask[first:]
    return Row(
        prompt_ids=segment.token_ids[:first],
        response_ids=segment.token_ids[first:],
        response_mask=mask,
        logprobs=np.where(mask == 1, segment.logprobs[first:], np.float32(0.0)),
        routes=segment.routes,
        routes_recorded=segment.routes_recorded,
        spans=tuple(_spans(segment, first)),
        weight=weight,
    )


def silent_row(prompt_ids: NDArray[np.int32], routes_like: NDArray[np.uint8] | None = None) -> Row:
    """The row of a trial that counts and trains nothing: it brings the trial's reward into its group.

    Args:
        prompt_ids: At least one id that the trial was asked with; the last is repeated as a response that is masked.
        routes_like: Routes of another row of the batch: every row has them or none does.
    """
    count = len(prompt_ids)
    routes = None if routes_like is None else np.zeros((count, *routes_like.shape[1:]), np.uint8)
    return Row(
        prompt_ids=prompt_ids,
        response_ids=prompt_ids[-1:],
        response_mask=np.zeros(1, np.uint8),
        logprobs=np.zeros(1, np.float32),
        routes=routes,
        routes_recorded=0,
        spans=(),
        weight=0.0,
    )


def _spans(segment: Segment, first: int) -> Iterator[CallSpan]:
    """Cut where the call, its positions or the weight version is another."""
    trained = np.flatnonzero(segment.loss_mask)
    calls, positions = segment.call_ids[trained], segment.call_positions[trained]
    versions = segment.versions[trained]
    if (calls < 0).any() or (positions < 0).any():
        raise CaptureError("a segment trains a token that no engine call sampled", _FIX)
    follows = (np.diff(trained) == 1) & (np.diff(positions) == 1) & (np.diff(calls) == 0) & (np.diff(versions) == 0)
    for piece in np.split(np.arange(len(trained)), np.flatnonzero(~follows) + 1):
        at = int(piece[0])
        yield CallSpan(
            call_id=segment.calls[calls[at]],
            start=int(trained[at]) - first,
            position=int(positions[at]),
            count=len(piece),
            version=int(versions[at]),
        )


def segment_of(row: Row) -> Segment:
    """The segment that a row was made of, bit for bit where `loss_mask` is 1 and everywhere but there the same.

    `Segment.calls` are in the order of their first trained token, as `gateway.segments` has them.
    """
    before, count = len(row.prompt_ids), len(row.response_ids)
    versions = np.full(before + count, -1, np.int32)
    call_ids, call_positions = versions.copy(), versions.copy()
    calls: dict[str, int] = {}
    for span in row.spans:
        at = slice(before + span.start, before + span.start + span.count)
        versions[at] = span.version
        call_ids[at] = calls.setdefault(span.call_id, len(calls))
        call_positions[at] = np.arange(span.position, span.position + span.count)
    nothing = np.zeros(before)
    return Segment(
        token_ids=np.concatenate([row.prompt_ids, row.response_ids]),
        loss_mask=np.concatenate([nothing.astype(np.uint8), row.response_mask]),
        logprobs=np.concatenate([nothing.astype(np.float32), row.logprobs]),
        versions=versions,
        call_ids=call_ids,
        call_positions=call_positions,
        calls=tuple(calls),
        routes=row.routes,
        routes_recorded=row.routes_recorded,
    )


def prove(rows: Sequence[Mapping[str, Any]], trajectory: Trajectory, trial: str) -> None:
    """Compare the rows of a trial, as the trainer reads them, with the trial's own record.

    Args:
        rows: Of each row ``prompts``, ``responses``, ``response_mask``, ``rollout_log_probs`` and, where the trial has
            them, ``routed_experts``, in the order of the trial's segments; anything that NumPy makes an array of.
        trajectory: The record.
        trial: Its id, for the message.

    Raises:
        CaptureError: They are not of each other.
    """
    expected = rows_of(trajectory)
    if len(rows) != len(expected):
        raise CaptureError(f"trial {trial} has {len(expected)} trained segments and {len(rows)} rows", _FIX)
    for index, (row, own) in enumerate(zip(rows, expected, strict=True)):
        arrays: dict[str, NDArray[Any]] = {
            "prompts": own.prompt_ids,
            "responses": own.response_ids,
            "response_mask": own.response_mask,
            "rollout_log_probs": own.logprobs,
        }
        found = {name: np.asarray(row[name]) for name in arrays}
        if own.routes is not None:
            arrays["routed_experts"] = own.routes
            found["routed_experts"] = np.asarray(row["routed_experts"])[: len(own.routes)]
        for name, array in arrays.items():
            if not np.array_equal(found[name], array):
                raise CaptureError(f"row {index} of trial {trial} has other {name} than its record", _FIX)
