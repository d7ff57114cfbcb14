"""Reads ``metrics.jsonl`` and the names of checkpoints: which steps a run has done.

Invariant: a step is finished when its checkpoint is on the disk. Its row is written before, so the last row of a run
that was killed can be of a step that a resumed run does again.
"""

import re
from pathlib import Path

from lego_rl.documents import read_json
from lego_rl.errors import RunError

type Figure = float | int | str | None
"""One number of a row; ``None`` where it is not defined."""

type Row = dict[str, Figure]
"""One line of ``metrics.jsonl``: figure → value."""

_CHECKPOINT = re.compile(r"step-(\d{4,})\Z")


def read_rows(path: Path) -> list[Row]:
    """The complete rows of a metrics file; a last line that a killed run tore is left out.

    Raises:
        RunError: The file cannot be read, or is damaged before its last line.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
        return [_row(line) for line in lines if line.endswith(b"\n")]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}", "restore the file from a copy") from error


def finished_rows(path: Path, finished: int) -> list[Row]:
    """The rows of the first `finished` steps of a run.

    Raises:
        RunError: The file cannot be read, is damaged, or lacks a finished step.
    """
    rows = [row for row in read_rows(path) if _step(row) < finished]
    if [row["step"] for row in rows] != list(range(finished)):
        raise RunError(f"{path} has not one row for each of {finished} finished steps", "restore the file from a copy")
    return rows


def _row(line: bytes) -> Row:
    row = read_json(line)
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError("a line is no object with a step")
    return row


def _step(row: Row) -> int:
    step = row["step"]
    assert isinstance(step, int), "checked when it was read"
    return step


def checkpoints_in(folder: Path) -> list[tuple[int, Path]]:
    """Finished steps and folder of every complete checkpoint, the oldest first."""
    if not folder.is_dir():
        return []
    matches = ((_CHECKPOINT.match(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)
