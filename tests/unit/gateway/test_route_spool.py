"""Routes on the disk are the routes that were kept, for as long as somebody holds them."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import START, call_text, result, tape
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from served import served

from lego_rl.gateway import spool as module
from lego_rl.gateway.spool import RouteSpool, joined

ROWS = st.integers(0, 40).flatmap(lambda count: arrays(np.uint8, (count, 3, 2)))


@given(st.lists(ROWS, max_size=12))
def test_what_is_read_is_what_was_kept(tmp_path: Path, given_rows: list[np.ndarray]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST_MAP", 4096)  # several mappings
        spool = RouteSpool(tmp_path)
        kept = [spool.keep(rows) for rows in given_rows]
        spool.close()
    for rows, read in zip(given_rows, kept, strict=True):
        np.testing.assert_array_equal(read, rows)
        assert not read.size or not read.flags.writeable


@given(st.lists(ROWS, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_joined_pieces_are_what_they_were_and_are_copied_only_where_they_lie_apart(
    tmp_path: Path, given_rows: list[np.ndarray], in_order: bool, several_mappings: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if several_mappings:
            patch.setattr(module, "_FIRST_MAP", 4096)
        spool = RouteSpool(tmp_path)
        kept = [spool.keep(rows) for rows in given_rows if len(rows)]
        spool.close()
    pieces = kept if in_order else kept[::-1]
    if not pieces:
        return
    whole = joined(pieces)
    np.testing.assert_array_equal(whole, np.concatenate(pieces))
    assert (len(pieces) > 1 and np.shares_memory(whole, pieces[0])) <= in_order
    if in_order and not several_mappings:
        assert np.shares_memory(whole, pieces[-1])


def test_pieces_that_were_shortened_or_lie_in_memory_are_joined(tmp_path: Path) -> None:
    spool = RouteSpool(tmp_path)
    one, two = (spool.keep(np.full((5, 2, 2), value, np.uint8)) for value in (1, 2))
    spool.close()
    for pieces in ([one[:-1], two], [one, two[1:]], [one.copy(), two], [one, two.copy()], [one[::2], two]):
        np.testing.assert_array_equal(joined(pieces), np.concatenate(pieces))


def test_a_call_larger_than_a_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_MAP", 1 << 16)
    spool = RouteSpool(tmp_path)
    small = np.ones((5, 2, 2), np.uint8)
    large = np.arange(module._FIRST_MAP + 4096, dtype=np.uint8).reshape(-1, 2, 2)
    kept = [spool.keep(rows) for rows in (small, large, small)]
    for rows, read in zip((small, large, small), kept, strict=True):
        np.testing.assert_array_equal(read, rows)
    spool.close()


def test_nothing_is_left_in_the_folder_and_no_handle_open(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    spool = RouteSpool(tmp_path)
    kept = spool.keep(np.ones((1000, 4, 2), np.uint8))
    assert list(tmp_path.iterdir()) == []
    spool.close()
    assert kept.sum() == 8000
    del kept
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_dense_session_opens_no_file(tmp_path: Path) -> None:
    RouteSpool(tmp_path / "nowhere").close()


def lies_on_disk(rows: NDArray[np.uint8]) -> bool:
    """Whether an array is a view of a mapped file."""
    base: object = rows
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap)


def files_below(folder: Path) -> int:
    """Handles of this process on files of a folder, of those without a name too."""
    handles = list(Path("/proc/self/fd").iterdir())  # the one that reads this list is closed again
    return sum(handle.is_symlink() and str(handle.readlink()).startswith(f"{folder}/") for handle in handles)


async def test_routes_of_a_session_lie_on_the_disk_and_are_the_engines(tmp_path: Path) -> None:
    engine = tape([call_text("bash", {"command": "ls"}), call_text("bash", {"command": "cat a"}), "Done."])
    wire, messages = AnthropicWire(), list(START)
    async with served(engine, spool=tmp_path) as at:
        for _ in range(3):
            answer = await at.ask(wire, messages)
            messages += [answer, *(result(call, "a") for call in answer.tool_calls)]
        assert files_below(tmp_path) == 2, "the file, open and mapped"
        assert os.listdir(tmp_path) == [], "it has no name"  # noqa: PTH208
        trajectory = await at.close()
        assert files_below(tmp_path) == 1, "mapped, as long as the trajectory is held"
    assert len(engine.samples) == 3
    for call, sample in zip(trajectory.generations, engine.samples, strict=True):
        assert call.routes is not None
        assert sample.routes is not None
        assert lies_on_disk(call.routes)
        assert not lies_on_disk(sample.routes)
        np.testing.assert_array_equal(call.routes, sample.routes)
    (segment,) = trajectory.segments
    assert segment.routes is not None
    np.testing.assert_array_equal(segment.routes, np.concatenate([sample.routes for sample in engine.samples]))
    del call, segment, trajectory
    assert files_below(tmp_path) == 0, "nothing waits for the garbage collector"
