"""Checkpoints of a run: ``checkpoints/step-NNNN`` holds the trainer after NNNN finished steps.

Invariant: a checkpoint directory that has its final name is complete: it is written under another name and renamed, and
renamed again before it is removed. The latest one is never removed, and is on the disk when `Checkpoints.save` returns.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from lego_rl.durable import sync_folder
from lego_rl.rollout.metrics_file import checkpoints_in

_STAGING, _DROPPED = ".writing-", ".dropped-"


class Checkpoints:
    """The checkpoints of one run directory.

    Args:
        root: Folder that holds them; it is made when the first one is saved.
        keep: How many of the latest are kept.
    """

    def __init__(self, root: Path, keep: int) -> None:
        self._root = root
        self._keep = keep

    def latest(self) -> tuple[int, Path] | None:
        """Finished steps and folder of the newest checkpoint, if there is one."""
        found = checkpoints_in(self._root)
        return found[-1] if found else None

    def save(self, steps: int, write: Callable[[Path], None]) -> Path:
        """Write the checkpoint of `steps` finished steps and drop those that are no longer kept.

        Args:
            steps: Finished steps.
            write: Fills the empty folder it is given.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        for left_over in (*self._root.glob(f"{_STAGING}*"), *self._root.glob(f"{_DROPPED}*")):
            shutil.rmtree(left_over)
        final = self._root / f"step-{steps:04d}"
        staging = self._root / f"{_STAGING}{final.name}"
        staging.mkdir()
        try:
            write(staging)
        except Exception:  # a full disk, most likely: what is there of it is in the way of whatever frees it
            shutil.rmtree(staging, ignore_errors=True)
            raise
        self._drop(final)
        staging.rename(final)
        sync_folder(self._root)
        for _, old in checkpoints_in(self._root)[: -self._keep]:
            self._drop(old)
        return final

    def _drop(self, folder: Path) -> None:
        """Remove a checkpoint, if it is there, so that being killed leaves no part of it under its name."""
        if folder.exists():
            shutil.rmtree(folder.rename(folder.with_name(f"{_DROPPED}{folder.name}")))
