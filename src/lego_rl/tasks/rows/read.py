"""Reads the rows of files and folders, by one rule for all who read some.

Invariant: whatever the size of a file, no more of it is in memory than a few rows. A row that cannot be read is one row
with a reason, and reading goes on; a file that cannot be read ends it, after the rows that stand before the damage.
Every row knows where it stands.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from lego_rl.errors import TaskError
from lego_rl.tasks.rows.files import files_of
from lego_rl.tasks.rows.json_file import count_json_rows, json_rows
from lego_rl.tasks.rows.row import Found, Unread
from lego_rl.tasks.rows.tables import arrow_rows, parquet_file, parquet_rows


def read_rows(inputs: Iterable[Path]) -> Iterator[Found]:
    """Every row of some files and folders, in their order.

    Raises:
        TaskError: There is no such file, it is of no kind that is known, or it is damaged.
    """
    for given in inputs:
        for file in files_of(given):
            yield from _found(file)


def count_rows(inputs: Iterable[Path]) -> int | None:
    """How many rows there are, where that can be told without reading them all; ``None`` where it cannot.

    Raises:
        TaskError: As `read_rows`.
    """
    counts = [_count(file) for given in inputs for file in files_of(given)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _found(file: Path) -> Iterator[Found]:
    try:
        for number, row in _rows_of(file):
            yield Found(f"{file}:{number}", row)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


def _rows_of(file: Path) -> Iterator[tuple[int, object | Unread]]:
    match file.suffix.lower():
        case ".parquet":
            return enumerate(parquet_rows(file), start=1)
        case ".arrow":
            return enumerate(arrow_rows(file), start=1)
        case _:
            return json_rows(file)


def _count(file: Path) -> int | None:
    try:
        match file.suffix.lower():
            case ".parquet":
                return int(parquet_file(file).metadata.num_rows)
            case ".arrow":
                return None
            case _:
                return count_json_rows(file)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> TaskError:
    return TaskError(f"{file} cannot be read: {error}", "fetch it again")
