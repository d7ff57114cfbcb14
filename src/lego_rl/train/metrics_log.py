"""The metrics of a run: one JSON object a line in ``metrics.jsonl``, the same numbers in TensorBoard.

Invariant: a step has one row, and it is on the disk when `MetricsLog.write` returns. When a run resumes, rows of steps
that were not finished are dropped before anything is written, so the file never says a step twice.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from lego_rl.errors import RunError
from lego_rl.rollout.metrics_file import Figure, Row, finished_rows, read_rows


class MetricsLog:
    """Writes the rows of a run.

    Args:
        run_dir: The run directory.
        finished: Finished steps; rows of later steps are dropped, for a resumed run does them again.
    """

    def __init__(self, run_dir: Path, finished: int) -> None:
        self._path = run_dir / "metrics.jsonl"
        kept = finished_rows(read_rows(self._path), finished)
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        partial.rename(self._path)
        self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.close()

    def write(self, step: int, figures: Mapping[str, Figure]) -> None:
        """Append the row of one step.

        Args:
            step: Step number, from 0.
            figures: Name (``group/quantity``) → value; one that is not finite is written as null.

        Raises:
            RunError: The disk did not take it; a resumed run does the step again.
        """
        row: Row = {"step": step} | {name: _finite(value) for name, value in figures.items()}
        try:
            self._append(row)
            for name, value in row.items():
                if name != "step" and isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)
            self._board.flush()
        except OSError as error:
            raise RunError(
                f"cannot write the metrics of step {step} to {self._path.parent}: {error}",
                "free disk space, then go on with the run",
            ) from error

    def _append(self, row: Row) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _finite(value: Figure) -> Figure:
    return None if isinstance(value, float) and not math.isfinite(value) else value
