"""Routes on the disk are the routes that were kept, for as long as somebody holds them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lego_rl.gateway import spool as module
from lego_rl.gateway.spool import RouteSpool

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


def test_a_call_larger_than_a_mapping(tmp_path: Path) -> None:
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
