"""Expert routes by position: every call owns the rows of the positions that it added.

Invariant: a row is taken from an engine call that fed the very same tokens up to that position; what no call recorded
stays zero and is counted as missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.errors import CaptureError
from lego_rl.gateway.call import Call
from lego_rl.gateway.recording import Recording


@dataclass(frozen=True)
class OwnedRoutes:
    """Rows ``[n, layers, top_k]`` that a call owns, and how many of them were recorded."""

    rows: NDArray[np.uint8]
    recorded: int


def route_shape(calls: Sequence[Call]) -> tuple[int, int] | None:
    """``(layers, top_k)`` of all calls' routes; ``None`` for a dense model.

    Raises:
        CaptureError: Calls disagree.
    """
    shapes = {None if r.routes is None else r.routes.shape[1:] for r in (call.answered() for call in calls)}
    if len(shapes) > 1:
        raise CaptureError(
            f"the engine's calls have expert routes of different shapes: {shapes}",
            "let one engine with one policy answer all calls of a trial",
        )
    found = shapes.pop() if shapes else None
    return None if found is None else (found[0], found[1])


def owned_routes(call: Call, calls: Sequence[Call], shape: tuple[int, int]) -> OwnedRoutes:
    """The rows of the positions from the parent's last token to the one before the call's own last.

    Args:
        call: An answered call.
        calls: All answered calls of the session: after a prefix-cache hit another one may have recorded the rows.
        shape: ``(layers, top_k)``.
    """
    start = max(0, call.start - 1)
    end = call.prompt_length + call.count
    count = end - 1 - start
    own = call.answered()
    if own.routes is not None and own.routes_from <= start:  # all of them: none is copied or read
        return OwnedRoutes(own.routes[start - own.routes_from :], count)
    rows = np.zeros((count, *shape), np.uint8)
    missing = np.ones(count, bool)
    _take(rows, missing, start, own, end)
    if missing.any():
        ids = _all_ids(call)
        for other in calls:
            _take(rows, missing, start, other.answered(), _agreement(ids, _all_ids(other)))
            if not missing.any():
                break
    return OwnedRoutes(rows, int(count - missing.sum()))


def _take(rows: NDArray[np.uint8], missing: NDArray[np.bool_], start: int, source: Recording, end: int) -> None:
    """Fill missing rows, the first of which is position `start`, from what `source` recorded before position `end`."""
    if source.routes is None:
        return
    low = max(start, source.routes_from)
    high = min(start + len(rows), source.routes_from + len(source.routes), end)
    if high <= low:
        return
    wanted = missing[low - start : high - start]
    rows[low - start : high - start][wanted] = source.routes[low - source.routes_from : high - source.routes_from][
        wanted
    ]
    wanted[:] = False


def _all_ids(call: Call) -> NDArray[np.int32]:
    return np.concatenate([call.prompt_ids().array, call.answered().token_ids])


def _agreement(ids: NDArray[np.int32], other: NDArray[np.int32]) -> int:
    """Length of the common prefix."""
    shared = min(len(ids), len(other))
    differs = np.flatnonzero(ids[:shared] != other[:shared])
    return int(differs[0]) if len(differs) else shared
