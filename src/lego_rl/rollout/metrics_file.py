"""Reads ``metrics.jsonl`` and the names of checkpoints: which steps a run has done.

Invariant: a step is finished when its checkpoint is on the disk. Its row is written before, so the last row of a run
that was killed can be of a step that a resumed run does again.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

type Figure = float | int | str | None
"""One number of a row; ``None`` where it is not defined."""

type Row = dict[str, Figure]
"""One line of ``metrics.jsonl``: figure → value."""

_CHECKPOINT = re.compile(r"step-(\d{4,})\Z")


def read_rows(path: Path) -> list[Row]:
    """The complete rows of a metrics file; a last line that a killed run tore is left out."""
    if not path.exists():
        return []
    rows: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def finished_rows(rows: Sequence[Row], finished: int) -> list[Row]:
    """The rows of the first `finished` steps."""
    return [row for row in rows if int(row["step"] or 0) < finished]


def checkpoints_in(folder: Path) -> list[tuple[int, Path]]:
    """Finished steps and folder of every complete checkpoint, the oldest first."""
    if not folder.is_dir():
        return []
    matches = ((_CHECKPOINT.match(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)
