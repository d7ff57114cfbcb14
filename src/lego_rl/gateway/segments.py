"""Model calls as training sequences: every delivered sampled token is trained in exactly one of them.

Rule: a chain goes from a first call to a delivered call whose delivered tokens no other delivered call continues in
full. A token that lies on several chains is trained in the first one (chains of the main conversation come first, then
the older last call) and is context in the others. A segment is a chain up to the last call of which it trains a token,
so a chain that trains nothing has none. Superseded and abandoned calls are in no segment. Nor are excluded ones, but as
the context of a call that trains. Where a harness echoed a prefix of an answer, its chain holds that prefix.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.spool import joined
from lego_rl.gateway.trajectory import Generation, Segment


@dataclass(frozen=True)
class _Part:
    """A call in a segment: its context, and its first sampled ids up to `end`, of which those from `start` on train."""

    call: Generation
    start: int
    end: int

    @property
    def token_ids(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Ids of context, and sampled ids."""
        return self.call.context_ids, self.call.token_ids[: self.end]


def chain_of(generations: Sequence[Generation], end: int) -> list[int]:
    """Indices of the calls from the start of a conversation to call `end`."""
    chain = [end]
    while (parent := generations[chain[-1]].parent) is not None:
        chain.append(parent)
    return chain[::-1]


def last_calls(generations: Sequence[Generation]) -> list[int]:
    """Index of the last call of every chain of delivered calls; first those with a segment, in the order of these."""
    segments = _parts(generations)
    return [*segments, *(end for end in _ends(generations) if end not in segments)]


def build_segments(generations: Sequence[Generation]) -> tuple[Segment, ...]:
    """The training sequences of one trial."""
    return tuple(_build(parts) for parts in _parts(generations).values())


def _ends(generations: Sequence[Generation]) -> list[int]:
    delivered = [index for index, call in enumerate(generations) if call.fate == "delivered"]
    continued = set()
    for call in (generations[index] for index in delivered):
        if call.parent is not None and (call.kept is None or call.kept >= generations[call.parent].delivered_tokens):
            continued.add(call.parent)
    ends = [index for index in delivered if index not in continued]
    return sorted(ends, key=lambda index: (generations[index].role != "main", index))


def _parts(generations: Sequence[Generation]) -> dict[int, list[_Part]]:
    """By the last call of a chain: the calls of its segment."""
    trained = [0] * len(generations)
    """Sampled ids of every call that are trained in a segment so far."""
    segments = {}
    for end in _ends(generations):
        chain = chain_of(generations, end)
        parts = []
        for index, following in zip(chain, (*chain[1:], None), strict=True):
            call = generations[index]
            kept = call.delivered_prefix if following is None else generations[following].kept
            count = len(call.token_ids) if kept is None else kept
            start = count if call.excluded is not None else min(trained[index], count)
            parts.append(_Part(call, start, count))
            trained[index] = max(trained[index], count)
        new = [at for at, part in enumerate(parts) if part.start < part.end]
        if new:
            segments[end] = parts[: new[-1] + 1]
    return segments


def _build(parts: Sequence[_Part]) -> Segment:
    token_ids = np.concatenate([ids for part in parts for ids in part.token_ids])
    length = len(token_ids)
    loss_mask = np.zeros(length, np.uint8)
    logprobs = np.zeros(length, np.float32)
    versions = np.full(length, -1, np.int32)
    call_ids = np.full(length, -1, np.int32)
    call_positions = np.full(length, -1, np.int32)
    names: list[str] = []
    first = 0
    for part in parts:
        call = part.call
        first += len(call.context_ids)
        trained = slice(first + part.start, first + part.end)
        if part.start < part.end:
            loss_mask[trained] = 1
            logprobs[trained] = call.logprobs[part.start : part.end]
            versions[trained] = _versions(call)[part.start : part.end]
            call_ids[trained] = len(names)
            call_positions[trained] = np.arange(part.start, part.end)
            names.append(call.call_id)
        first += part.end
    routes = [_routes(part) for part in parts]
    return Segment(
        token_ids=token_ids,
        loss_mask=loss_mask,
        logprobs=logprobs,
        versions=versions,
        call_ids=call_ids,
        call_positions=call_positions,
        calls=tuple(names),
        routes=_joined([rows for rows, _ in routes]),
        routes_recorded=sum(recorded for _, recorded in routes),
    )


def _versions(call: Generation) -> NDArray[np.int32]:
    """``[T]`` the weight version of every sampled token."""
    spans = call.weight_versions
    return np.repeat([span.version for span in spans], [span.end - span.start for span in spans]).astype(np.int32)


def _routes(part: _Part) -> tuple[NDArray[np.uint8] | None, int]:
    """The rows of a call in a segment, and how many of them were recorded: at least, where the call is cut."""
    rows, recorded = part.call.routes, part.call.routes_recorded
    if rows is None:
        return None, recorded
    dropped = len(part.call.token_ids) - part.end
    return rows[: len(rows) - dropped], max(0, recorded - dropped)


def _joined(pieces: Sequence[NDArray[np.uint8] | None]) -> NDArray[np.uint8] | None:
    rows = [each for each in pieces if each is not None]
    return joined(rows) if rows else None
