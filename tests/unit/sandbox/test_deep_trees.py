"""Trees deeper than a path can be long: they are compared up to a depth, and removed whole."""

import os
from pathlib import Path

from lego_rl.sandbox.comparison import MAX_DEPTH
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.removal import remove_tree

DEPTH = 1200
NAME = "folder"


def dig(folder: Path, depth: int) -> None:
    """A chain of folders with a file beside each, made without ever naming a long path."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=place))
        os.mkdir(NAME, 0o700, dir_fd=place)
        inner = os.open(NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


def test_a_tree_too_deep_for_paths_is_removed_whole(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "upper").mkdir(parents=True)
    (folder / "upper" / "link").symlink_to(tmp_path)
    dig(folder / "upper", DEPTH)
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_what_lies_too_deep_is_dropped_with_a_reason(tmp_path: Path) -> None:
    upper, pristine = tmp_path / "upper", tmp_path / "pristine"
    upper.mkdir()
    pristine.mkdir()
    dig(upper, DEPTH)
    patch = OverlaySnapshot(upper).diff(pristine)
    assert len(patch.changes) == MAX_DEPTH
    assert set(patch.dropped.values()) == {"nested too deeply"}
    remove_tree(upper)
