"""Converts rows in parallel: what is there already stays, what cannot be converted is listed, the rest goes on.

Invariant: a task directory is whole or absent, whenever this process is killed, and running again finishes the work and
rewrites nothing. The order of the rows decides which of two of one name becomes the task, however many processes
convert: they write beside the tasks, and the one that asked for it moves what they wrote into place.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import batched
from multiprocessing import get_context
from pathlib import Path

from lego_rl.children import begin_child
from lego_rl.errors import TaskError
from lego_rl.tasks.convert.placing import Made, Place, Settled
from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RawRow, RowError
from lego_rl.tasks.convert.skipped import Skipped, SkippedFile
from lego_rl.tasks.rows.read import read_rows
from lego_rl.tasks.rows.row import Found, Unread
from lego_rl.tasks.staging import remove_leftovers

CHUNK = 16
"""Rows that one process is given at once."""
AHEAD = 3
"""Chunks for each process that are read before they are needed."""


@dataclass
class Summary:
    """What became of all rows."""

    written: int = 0
    unchanged: int = 0
    replaced: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def tasks(self) -> int:
        """Rows that are task directories now."""
        return self.written + self.unchanged + self.replaced

    @property
    def rows(self) -> int:
        """Rows that were read."""
        return self.tasks + len(self.skipped)

    def note(self, made: Made, settled: Settled) -> Skipped | None:
        """Count a row; returns it where it became no task."""
        match settled:
            case "written":
                self.written += 1
            case "unchanged":
                self.unchanged += 1
            case "replaced":
                self.replaced += 1
            case refused:
                self.skipped.append(Skipped(made.place, made.instance, refused.text))
                return self.skipped[-1]
        return None


def convert(
    form: str,
    inputs: Iterable[Path],
    out: Path,
    *,
    summary: Summary | None = None,
    workers: int | None = None,
    on_row: Callable[[Summary], None] = lambda _: None,
    on_skipped: Callable[[Skipped], None] = lambda _: None,
) -> Summary:
    """Convert every row of some files.

    Args:
        form: Name of the format.
        inputs: Files and folders.
        out: Folder of the task directories.
        summary: Is filled row by row, and has what became of the rows before a fault; a new one by default.
        workers: Processes; as many as there are processors by default.
        on_row: Is told how far it is, after each row.
        on_skipped: Is told of each row that became no task; what it raises ends the conversion.

    Returns:
        What became of the rows; the skipped ones are in `SKIPPED` too.

    Raises:
        TaskError: A file cannot be read, after the rows before the damage were converted; or the folder cannot be
            written.
    """
    format_named(form)
    summary = Summary() if summary is None else summary
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_leftovers(out)
        place = Place(out)
        with SkippedFile(out, form) as listed:
            for made in _converted(form, read_rows(inputs), out, workers or os.cpu_count() or 1):
                skipped = summary.note(made, place.settle(made))
                listed.note(made.place, skipped)
                if skipped is not None:
                    on_skipped(skipped)
                on_row(summary)
        remove_leftovers(out)  # once more: processes of a killed conversion may have been ending when this one began
    except OSError as error:
        raise TaskError(f"cannot write tasks into {out}: {error}", "name a folder on a disk with space") from error
    except BrokenProcessPool as error:
        raise TaskError("a process that converts rows was killed", "look for what kills processes here") from error
    return summary


class _UpToDamage:
    """Rows up to where they cannot be read any more; `fault` says why they end there."""

    def __init__(self, rows: Iterator[Found]) -> None:
        self._rows = rows
        self.fault: TaskError | None = None

    def __iter__(self) -> Iterator[Found]:
        try:
            yield from self._rows
        except TaskError as error:
            self.fault = error


def _converted(form: str, rows: Iterator[Found], out: Path, workers: int) -> Iterator[Made]:
    """What processes make of the rows, in their order; what nobody asked for any more is removed.

    Raises:
        TaskError: The rows cannot be read any further; what became of those before it has been told.
    """
    readable = _UpToDamage(rows)
    # Not forked: what reads tables has threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=begin_child, initargs=(os.getpid(),)) as pool:
        waiting: deque[Future[list[Made]]] = deque()
        try:
            for chunk in batched(readable, CHUNK):
                waiting.append(pool.submit(_convert_all, form, chunk, out))
                while len(waiting) >= workers * AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            remove_leftovers(out)
    if readable.fault is not None:
        raise readable.fault


def _convert_all(form: str, rows: Iterable[Found], out: Path) -> list[Made]:
    return [_convert_one(form, found, out) for found in rows]


def _convert_one(form: str, found: Found, out: Path) -> Made:
    row = found.row
    if isinstance(row, Unread):
        return Made(found.place, row.instance, reason=row.reason)
    if not isinstance(row, Mapping):
        return Made(found.place, "", reason="it is no object")
    instance = _name_of(row)
    try:
        task = format_named(form).convert(row)
        return Made.of(found.place, instance, task, out)
    except RowError as error:
        return Made(found.place, instance, reason=str(error))
    except TaskError as error:
        return Made(found.place, instance, reason=error.problem)
    except (UnicodeError, RecursionError) as error:
        return Made(found.place, instance, reason=f"a text of it cannot be used: {error}")


def _name_of(row: RawRow) -> str:
    for name in ("instance_id", "docker_image", "commit_hash"):
        value = row.get(name)
        if isinstance(value, str) and value:
            return value[:300]
    return ""
