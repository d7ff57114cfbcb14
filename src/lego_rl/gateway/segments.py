"""Model calls as training sequences: every delivered sampled token is trained in exactly one of them.

Rule: a segment is a chain from a first call to a delivered call without delivered continuations. A call that lies on
several chains is trained in the first one (chains of the main conversation come first, then the older last call) and is
context in the others. Superseded and abandoned calls are in no segment. Nor are excluded ones, but as the
context of a call that trains: a segment ends with the last such call, and a chain without one has no segment.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.trajectory import Generation, Segment


def chain_of(generations: Sequence[Generation], end: int) -> list[int]:
    """Indices of the calls from the start of a conversation to call `end`."""
    chain = [end]
    while (parent := generations[chain[-1]].parent) is not None:
        chain.append(parent)
    return chain[::-1]


def last_calls(generations: Sequence[Generation]) -> list[int]:
    """Index of the last call of every chain of delivered calls; first those with a segment, in the order of these."""
    segments = _segment_calls(generations)
    return [*segments, *(end for end in _ends(generations) if end not in segments)]


def _ends(generations: Sequence[Generation]) -> list[int]:
    delivered = [index for index, call in enumerate(generations) if call.fate == "delivered"]
    continued = {generations[index].parent for index in delivered}
    ends = [index for index in delivered if index not in continued]
    return sorted(ends, key=lambda index: (generations[index].role != "main", index))


def build_segments(generations: Sequence[Generation]) -> tuple[Segment, ...]:
    """The training sequences of one trial."""
    return tuple(
        _build([(generations[index], trained) for index, trained in calls])
        for calls in _segment_calls(generations).values()
    )


def _segment_calls(generations: Sequence[Generation]) -> dict[int, list[tuple[int, bool]]]:
    """By the last call of a chain: the calls of its segment, and whether each of them is trained there."""
    trained: set[int] = set()
    segments = {}
    for end in _ends(generations):
        chain = chain_of(generations, end)
        new = [index for index in chain if generations[index].excluded is None and index not in trained]
        if new:
            segments[end] = [(index, index in new) for index in chain[: chain.index(new[-1]) + 1]]
            trained.update(new)
    return segments


def _build(chain: Sequence[tuple[Generation, bool]]) -> Segment:
    calls = [call for call, _ in chain]
    token_ids = np.concatenate([ids for call in calls for ids in (call.context_ids, call.token_ids)])
    length = len(token_ids)
    loss_mask = np.zeros(length, np.uint8)
    logprobs = np.zeros(length, np.float32)
    versions = np.full(length, -1, np.int32)
    call_ids = np.full(length, -1, np.int32)
    call_positions = np.full(length, -1, np.int32)
    names: list[str] = []
    end = 0
    for call, is_trained in chain:
        start = end + len(call.context_ids)
        end = start + len(call.token_ids)
        if not is_trained:
            continue
        loss_mask[start:end] = 1
        logprobs[start:end] = call.logprobs
        for span in call.weight_versions:
            versions[start + span.start : start + span.end] = span.version
        call_ids[start:end] = len(names)
        call_positions[start:end] = np.arange(end - start)
        names.append(call.call_id)
    return Segment(
        token_ids=token_ids,
        loss_mask=loss_mask,
        logprobs=logprobs,
        versions=versions,
        call_ids=call_ids,
        call_positions=call_positions,
        calls=tuple(names),
        routes=_routes(calls),
        routes_recorded=sum(call.routes_recorded for call in calls),
    )


def _routes(calls: Sequence[Generation]) -> NDArray[np.uint8] | None:
    rows = [call.routes for call in calls if call.routes is not None]
    return np.concatenate(rows) if rows else None
