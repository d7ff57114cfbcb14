"""Checkpoints of a run: ``checkpoints/step-NNNN`` holds the trainer after NNNN finished steps.

Invariant: a checkpoint directory that has its final name is complete (it is written elsewhere and renamed), and the
latest one is never removed.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from lego_rl.rollout.metrics_file import checkpoints_in


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
        final = self._root / f"step-{steps:04d}"
        staging = self._root / f".step-{steps:04d}.partial"
        for left_over in (staging, final):
            shutil.rmtree(left_over, ignore_errors=True)
        staging.mkdir(parents=True)
        write(staging)
        staging.rename(final)
        for _, old in checkpoints_in(self._root)[: -self._keep]:
            shutil.rmtree(old)
        return final
