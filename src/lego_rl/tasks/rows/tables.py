"""Rows of Parquet and Arrow files, some at a time. A value that cannot be read costs one row, and no more."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lego_rl.errors import TaskError
from lego_rl.tasks.rows.row import Unread, bearable, id_in

BATCH = 16
"""Rows that are read at once."""
_UNREADABLE = (pa.ArrowException, ArithmeticError, ValueError, LookupError, RecursionError)
"""What a value raises that Python has none for: a time of no calendar or zone, a text that is no UTF-8."""


def parquet_file(file: Path) -> pq.ParquetFile:
    """An opened file.

    Raises:
        TaskError: It is no Parquet file.
    """
    try:
        return pq.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise TaskError(f"{file} is no Parquet file: {error}", "fetch it again") from error


def parquet_rows(file: Path) -> Iterator[object | Unread]:
    """Every row of a Parquet file.

    Raises:
        TaskError: It is none.
        OSError: It is damaged.
        pyarrow.ArrowException: Likewise.
    """
    return _rows(parquet_file(file).iter_batches(batch_size=BATCH))


def arrow_rows(file: Path) -> Iterator[object | Unread]:
    """Every row of an Arrow stream or file.

    Raises:
        OSError: It is damaged.
        pyarrow.ArrowException: Likewise, or it is none.
    """
    with pa.memory_map(str(file)) as source:
        try:
            reader: Iterable[pa.RecordBatch] = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            opened = pa.ipc.open_file(source)
            reader = (opened.get_batch(number) for number in range(opened.num_record_batches))
        yield from _rows(part for batch in reader for part in _slices(batch))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[object | Unread]:
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except _UNREADABLE:
            rows = [_row(batch.slice(number, 1)) for number in range(batch.num_rows)]
        yield from (row if isinstance(row, Unread) else bearable(row) for row in rows)


def _row(batch: pa.RecordBatch) -> dict[str, object] | Unread:
    """The row of a batch of one."""
    row: dict[str, object] = {}
    wrong: list[str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[0].as_py()
        except _UNREADABLE as error:
            wrong.append(f"its {name} cannot be read: {error}")
    return Unread(wrong[0], id_in(row)) if wrong else row
