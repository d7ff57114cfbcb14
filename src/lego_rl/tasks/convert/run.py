"""Converts rows in parallel: what is there already stays, what cannot be converted is listed, the rest goes on.

Invariant: a task directory is whole or absent, whenever this process is killed, and running again finishes the work and
rewrites nothing. The order of the rows decides which of two of one name becomes the task, however many processes
convert: they write beside the tasks, and the one that asked for it moves what they wrote into place.
"""

import json
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from itertools import batched
from multiprocessing import get_context
from pathlib import Path

from lego_rl.durable import write_text
from lego_rl.errors import TaskError
from lego_rl.tasks.convert.placing import Made, Place
from lego_rl.tasks.convert.read_rows import Found, Unread, read_rows
from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RawRow, RowError
from lego_rl.tasks.staging import remove_leftovers

CHUNK = 16
"""Rows that one process is given at once."""
AHEAD = 3
"""Chunks for each process that are read before they are needed."""
SKIPPED = "skipped.jsonl"
"""Beside the tasks: place, id and reason of every row that became none."""


@dataclass(frozen=True)
class Skipped:
    """A row that became no task.

    Attributes:
        place: Its file and number.
        instance: Its id, as far as it has one.
        reason: Why.
    """

    place: str
    instance: str
    reason: str


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


def convert(
    form: str,
    inputs: Iterable[Path],
    out: Path,
    *,
    workers: int | None = None,
    on_row: Callable[[Summary], None] = lambda _: None,
    on_skipped: Callable[[Skipped], None] = lambda _: None,
) -> Summary:
    """Convert every row of some files.

    Args:
        form: Name of the format.
        inputs: Files and folders.
        out: Folder of the task directories.
        workers: Processes; as many as there are processors by default.
        on_row: Is told how far it is, after each row.
        on_skipped: Is told of each row that became no task; what it raises ends the conversion.

    Returns:
        What became of the rows; the skipped ones are in `SKIPPED` too.

    Raises:
        TaskError: A file cannot be read, or the folder cannot be written.
    """
    format_named(form)
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_leftovers(out)
        place, summary = Place(out), Summary()
        for made in _converted(form, read_rows(inputs), out, workers or os.cpu_count() or 1):
            match place.settle(made):
                case "written":
                    summary.written += 1
                case "unchanged":
                    summary.unchanged += 1
                case "replaced":
                    summary.replaced += 1
                case reason:
                    summary.skipped.append(Skipped(made.place, made.instance, reason.text))
                    on_skipped(summary.skipped[-1])
            on_row(summary)
        _list(summary.skipped, out / SKIPPED)
    except OSError as error:
        raise TaskError(f"cannot write tasks into {out}: {error}", "name a folder on a disk with space") from error
    except BrokenProcessPool as error:
        raise TaskError("a process that converts rows was killed", "look for what kills processes here") from error
    return summary


def _list(skipped: list[Skipped], file: Path) -> None:
    if skipped:
        write_text(file, "".join(f"{json.dumps(asdict(one))}\n" for one in skipped))
    else:
        file.unlink(missing_ok=True)


def _converted(form: str, rows: Iterator[Found], out: Path, workers: int) -> Iterator[Made]:
    """What processes make of the rows, in their order; what nobody asked for any more is removed."""
    # Not forked: what reads tables has threads.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_leave_interrupts_alone) as pool:
        waiting: deque[Future[list[Made]]] = deque()
        try:
            for chunk in batched(rows, CHUNK):
                waiting.append(pool.submit(_convert_all, form, chunk, out))
                while len(waiting) >= workers * AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            remove_leftovers(out)


def _leave_interrupts_alone() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _convert_all(form: str, rows: Iterable[Found], out: Path) -> list[Made]:
    return [_convert_one(form, found, out) for found in rows]


def _convert_one(form: str, found: Found, out: Path) -> Made:
    row = found.row
    if isinstance(row, Unread):
        return Made(found.place, "", reason=row.reason)
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
