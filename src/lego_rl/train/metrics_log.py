"""The metrics of a run: one JSON object a line in ``metrics.jsonl``, the same numbers in TensorBoard.

Invariant: a step has one row, and it is on the disk when `MetricsLog.write` returns. The first row that a resumed run
writes takes the place of those of steps that were not finished, so the file never says a step twice; until then it is
left as it is.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.utils.tensorboard import SummaryWriter

from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.rollout.metrics_file import Figure, Row, finished_rows


class MetricsLog:
    """Writes the rows of a run.

    Args:
        run_dir: The run directory.
        finished: Finished steps; rows of later steps are replaced, for a resumed run does them again.

    Raises:
        RunError: The file is damaged or lacks a finished step, or nothing can be written beside it.
    """

    def __init__(self, run_dir: Path, finished: int) -> None:
        self._path = run_dir / "metrics.jsonl"
        self._finished: list[Row] | None = finished_rows(self._path, finished)
        try:
            self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=finished)
        except OSError as error:
            raise RunError(f"cannot write {run_dir / 'tensorboard'}: {error}", "move away what is there") from error

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
        if self._finished is not None:
            rows, self._finished = [*self._finished, row], None
            write_text(self._path, "".join(json.dumps(each) + "\n" for each in rows))
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _finite(value: Figure) -> Figure:
    return None if isinstance(value, float) and not math.isfinite(value) else value
