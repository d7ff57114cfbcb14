"""The token tree as training sequences: every delivered sampled token is trained in exactly one of them.

Rule: a segment is a chain from a root to a delivered call without delivered children. A call that lies on several
chains is trained in the first one (chains of the main conversation come first, then the older leaf) and is context in
the others. Superseded and abandoned calls open no chain, so they appear nowhere.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lego_rl.errors import CaptureError
from lego_rl.gateway.recording import Recording
from lego_rl.gateway.trajectory import Fate, Segment
from lego_rl.gateway.tree import Call, TokenTree


def fates(tree: TokenTree) -> dict[Call, Fate]:
    """What became of every answered call; see `trajectory.Fate`."""
    return {call: _fate(tree, call) for call in tree.calls}


def _fate(tree: TokenTree, call: Call) -> Fate:
    if call.echoed:
        return "delivered"
    if any(twin.index > call.index and twin.recording for twin in tree.twins(call)):
        return "superseded"
    return "delivered" if call.written else "abandoned"


def leaves(fate_of: Mapping[Call, Fate]) -> list[Call]:
    """Delivered calls without delivered children, in the order of their segments."""
    delivered = {call for call, fate in fate_of.items() if fate == "delivered"}
    ends = [call for call in delivered if delivered.isdisjoint(call.children)]
    return sorted(ends, key=lambda call: (call.role != "main", call.index))


def build_segments(ends: Sequence[Call], calls: Sequence[Call]) -> tuple[Segment, ...]:
    """One segment a leaf.

    Args:
        ends: Leaves, in the order of the segments.
        calls: All answered calls, whatever their fate: their expert routes fill in for prefix-cache hits.

    Raises:
        CaptureError: Some calls have routes of another shape than the others, or none.
    """
    shape = _route_shape(calls)
    trained: set[Call] = set()
    segments = []
    for end in ends:
        chain = end.chain()
        segments.append(_build(chain, set(chain) - trained, shape, calls))
        trained |= set(chain)
    return tuple(segments)


def _build(chain: list[Call], trained: set[Call], shape: tuple[int, int] | None, calls: Sequence[Call]) -> Segment:
    length = chain[-1].length
    token_ids = _token_ids(chain)
    loss_mask = np.zeros(length, np.uint8)
    logprobs = np.zeros(length, np.float32)
    versions = np.full(length, -1, np.int32)
    call_ids = np.full(length, -1, np.int32)
    call_positions = np.full(length, -1, np.int32)
    names: list[str] = []
    for call in chain:
        if call not in trained:
            continue
        recording = _recording(call)
        here = slice(call.prompt_length, call.length)
        loss_mask[here] = 1
        logprobs[here] = recording.logprobs
        versions[here] = recording.versions
        call_ids[here] = len(names)
        call_positions[here] = np.arange(len(recording.token_ids))
        names.append(recording.call_id)
    routes, recorded = (None, 0) if shape is None else _merge_routes(chain, token_ids, shape, calls)
    return Segment(
        token_ids=token_ids,
        loss_mask=loss_mask,
        logprobs=logprobs,
        versions=versions,
        call_ids=call_ids,
        call_positions=call_positions,
        calls=tuple(names),
        routes=routes,
        routes_recorded=recorded,
    )


def _token_ids(chain: Iterable[Call]) -> NDArray[np.int32]:
    return np.concatenate([ids for call in chain for ids in (call.context_ids, _recording(call).token_ids)])


def _recording(call: Call) -> Recording:
    if call.recording is None:
        raise CaptureError(f"call {call.index} lies on a delivered chain but was never answered")
    return call.recording


def _route_shape(calls: Sequence[Call]) -> tuple[int, int] | None:
    shapes = {None if routes is None else routes.shape[1:] for routes in (_recording(call).routes for call in calls)}
    if len(shapes) > 1:
        raise CaptureError(f"the engine's calls have expert routes of different shapes: {shapes}")
    found = shapes.pop() if shapes else None
    return None if found is None else (found[0], found[1])


def _merge_routes(
    chain: list[Call], token_ids: NDArray[np.int32], shape: tuple[int, int], calls: Sequence[Call]
) -> tuple[NDArray[np.uint8], int]:
    """Rows of every position: the chain's own calls first, then any call whose prompt agrees that far."""
    positions = len(token_ids) - 1
    rows = np.zeros((positions, *shape), np.uint8)
    recorded = np.zeros(positions, bool)
    for call in chain:
        _fill(rows, recorded, call, positions)
    for call in calls:
        if recorded.all():
            break
        ids = _token_ids(call.chain())
        shared = min(len(ids), len(token_ids))
        differs = np.flatnonzero(ids[:shared] != token_ids[:shared])
        _fill(rows, recorded, call, int(differs[0]) if len(differs) else shared)
    return rows, int(recorded.sum())


def _fill(rows: NDArray[np.uint8], recorded: NDArray[np.bool_], call: Call, end: int) -> None:
    """Take the call's rows before position `end` that nobody recorded yet."""
    recording = _recording(call)
    start = recording.routes_from
    if recording.routes is None:
        return
    end = min(end, start + len(recording.routes), len(rows))
    if end <= start:
        return
    missing = ~recorded[start:end]
    rows[start:end][missing] = recording.routes[: end - start][missing]
    recorded[start:end] = True
