"""Checkpoints are complete or absent, and the latest always stays."""

import shutil
from pathlib import Path

import pytest

from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.train.checkpoints import Checkpoints


def write(folder: Path) -> None:
    (folder / "weights").write_text("w")


def test_the_latest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "c", keep=2)
    assert checkpoints.latest() is None
    for steps in (0, 1, 2, 10):
        checkpoints.save(steps, write)
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["step-0002", "step-0010"]
    assert checkpoints.latest() == (10, tmp_path / "c" / "step-0010")


def test_a_killed_write_leaves_the_one_before_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(3, write)

    def dies(folder: Path) -> None:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(4, dies)
    assert checkpoints.latest() == (3, tmp_path / "step-0003")
    checkpoints.save(4, write)
    assert [p.name for p in tmp_path.iterdir()] == ["step-0004"]


def test_a_write_that_fails_leaves_no_part_on_the_full_disk(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(3, write)

    def fills_the_disk(folder: Path) -> None:
        write(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        checkpoints.save(4, fills_the_disk)
    assert [p.name for p in tmp_path.iterdir()] == ["step-0003"]


def test_a_killed_removal_leaves_no_part_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(3, write)

    def dies(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(4, write)
    assert [steps for steps, _ in checkpoints_in(tmp_path)] == [4]
    checkpoints.save(5, write)
    assert [p.name for p in tmp_path.iterdir()] == ["step-0005"], "what was left over is gone"


def test_a_checkpoint_that_is_written_again_replaces_the_first(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(3, write)
    checkpoints.save(3, lambda folder: None)
    assert [list(p.iterdir()) for p in tmp_path.iterdir()] == [[]]
