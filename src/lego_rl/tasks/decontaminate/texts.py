"""Issue texts and gold patches of tasks, from their directories."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lego_rl.errors import TaskError
from lego_rl.tasks.content import texts_digest
from lego_rl.tasks.index.task_row import gold_patch

_THREADS = 4
_MOST_CHARS = 2_000_000
"""Of either end of a text: more than what `lego_rl.tasks.convert` lets through as an issue. Between is a log."""


@dataclass(frozen=True)
class Texts:
    """Texts of tasks.

    Attributes:
        issues: ``[tasks]`` what the harness is told.
        patches: ``[tasks]`` gold patches; null for a task without one.
        digests: ``[tasks]`` of both, whole (`tasks.content.texts_digest`).
    """

    issues: Any
    patches: Any
    digests: Sequence[str]


def read_texts(folders: Sequence[Path]) -> Texts:
    """Read the texts of task directories.

    Raises:
        TaskError: A directory is not there, or a file cannot be read.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(_read, folders, chunksize=64))
    return Texts(
        pa.array([issue for issue, _, _ in found], pa.string()),
        pa.array([patch for _, patch, _ in found], pa.string()),
        [digest for _, _, digest in found],
    )


def _read(folder: Path) -> tuple[str, str | None, str]:
    try:
        issue = (folder / "instruction.md").read_text(encoding="utf-8", errors="replace")
        patch = gold_patch(folder)
    except OSError as error:
        fix = "move the pool back beside its index, or make the index anew with: lego-rl tasks index DIR --out FILE"
        raise TaskError(f"the task directory {folder} cannot be read: {error.strerror}", fix) from error
    return _ends(issue), None if patch is None else _ends(patch), texts_digest(issue, patch)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _MOST_CHARS else f"{text[:_MOST_CHARS]}\n{text[-_MOST_CHARS:]}"
