"""The metrics of a run: one JSON object a line in ``metrics.jsonl``, the same numbers in TensorBoard.

Invariant: a step has one row. When a run resumes, rows of steps that were not finished are dropped before anything is
written, so the file never says a step twice.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.utils.tensorboard import SummaryWriter

type Figure = float | int | str | None
"""One number of a row; ``None`` where it is not defined."""


class MetricsLog:
    """Writes the rows of a run.

    Args:
        run_dir: The run directory.
        finished: Finished steps; rows of later steps are dropped, for a resumed run does them again.
    """

    def __init__(self, run_dir: Path, finished: int) -> None:
        self._path = run_dir / "metrics.jsonl"
        kept = [row for row in read_rows(self._path) if int(row["step"] or 0) < finished]
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
        """
        row: dict[str, Figure] = {"step": step} | {name: _finite(value) for name, value in figures.items()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float):
                self._board.add_scalar(name, value, step)
        self._board.flush()


def read_rows(path: Path) -> list[dict[str, Figure]]:
    """The complete rows of a metrics file; a last line that a killed run tore is left out."""
    if not path.exists():
        return []
    rows: list[dict[str, Figure]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def _finite(value: Figure) -> Figure:
    return None if isinstance(value, float) and not math.isfinite(value) else value
