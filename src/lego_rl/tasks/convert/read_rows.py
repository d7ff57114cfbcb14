"""Rows of data sets as they lie on a disk: JSON lines, JSON, Parquet, and folders of ``datasets``.

Invariant: whatever the size of a file, no more of it is in memory than a few rows, but for a JSON array, which is read
row by row too. A row that cannot be read is one row with a reason, and reading goes on; a file that cannot be read ends
it. Every row knows where it stands.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from lego_rl.errors import TaskError
from lego_rl.tasks.convert.row import RawRow

MAX_ROW_BYTES = 64 << 20
"""Of a row of JSON."""
BATCH = 16
"""Rows of a table that are read at once."""
SUFFIXES = (".jsonl", ".json", ".parquet", ".arrow")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Unread:
    """A row that is none; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class Found:
    """A row, and where it stands.

    Attributes:
        place: ``FILE:NUMBER``, counted from 1.
        row: What it holds.
    """

    place: str
    row: RawRow | Unread


def read_rows(inputs: Iterable[Path]) -> Iterator[Found]:
    """Every row of some files and folders, in their order.

    Raises:
        TaskError: There is no such file, it is of no kind that is known, or it is damaged.
    """
    for given in inputs:
        for file in files_of(given):
            yield from _rows_of(file)


def count_rows(inputs: Iterable[Path]) -> int | None:
    """How many rows there are, where that can be told without reading them all; ``None`` where it cannot.

    Raises:
        TaskError: As `read_rows`.
    """
    total = 0
    for given in inputs:
        for file in files_of(given):
            match file.suffix:
                case ".parquet":
                    total += _parquet(file).metadata.num_rows
                case ".jsonl":
                    total += _lines(file)
                case _:
                    return None
    return total


def files_of(given: Path) -> list[Path]:
    """The files of an input: itself, or those of a folder that ``datasets`` wrote or that was downloaded from a hub.

    Raises:
        TaskError: There are none.
    """
    if given.is_file():
        if given.suffix not in SUFFIXES:
            raise TaskError(
                f"{given} is of no kind that is known", f"name a folder, or a file of {', '.join(SUFFIXES)}"
            )
        return [given]
    if not given.is_dir():
        raise TaskError(f"there is no file or folder {given}", "name the rows to convert")
    if (given / "state.json").is_file():  # datasets' save_to_disk
        return _saved(given)
    found = [
        path
        for path in sorted(given.rglob("*"))
        if path.is_file()
        and path.suffix in SUFFIXES
        and path.name not in {"dataset_info.json", "dataset_dict.json", "state.json", "dataset_infos.json"}
        and not any(part.startswith(".") for part in path.relative_to(given).parts)
    ]
    if not found:
        raise TaskError(f"{given} holds no rows", f"it needs files of {', '.join(SUFFIXES)}")
    return found


def _saved(folder: Path) -> list[Path]:
    """The files of a data set that was saved to disk, in its order."""
    try:
        names = [entry["filename"] for entry in json.loads((folder / "state.json").read_text())["_data_files"]]
        files = [folder / str(name) for name in names]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(
            f"{folder / 'state.json'} says nothing of its files: {error}", "save the data set again"
        ) from error
    if strange := [file for file in files if file.parent != folder or not file.is_file()]:
        raise TaskError(f"{folder} lacks its file {strange[0].name}", "save the data set again")
    return files


def _rows_of(file: Path) -> Iterator[Found]:
    try:
        match file.suffix:
            case ".jsonl":
                rows = _json_lines(file)
            case ".json":
                rows = _json_array(file)
            case ".parquet":
                rows = _batches(_parquet(file).iter_batches(batch_size=BATCH))
            case _:
                rows = _arrow(file)
        for number, row in enumerate(rows, start=1):
            yield Found(f"{file}:{number}", row)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise TaskError(f"{file} cannot be read: {error}", "fetch it again") from error


def _json_lines(file: Path) -> Iterator[RawRow | Unread]:
    with file.open("rb") as stream:
        while line := stream.readline(MAX_ROW_BYTES + 1):
            if len(line) > MAX_ROW_BYTES:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(_PIECE)
                yield Unread(f"it has more than {MAX_ROW_BYTES >> 20} MiB")
            elif line.strip():
                yield _row(line)


def _row(text: bytes) -> RawRow | Unread:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unread(f"it is no JSON: {error}")
    return row if isinstance(row, dict) else Unread("it is no JSON object")


def _json_array(file: Path) -> Iterator[RawRow | Unread]:
    """The objects of an array, one after the other; or of the one array that an object has."""
    with file.open(encoding="utf-8") as stream:
        yield from _Array(stream, file).rows()


class _Array:
    """Reads the values of a JSON array piece by piece."""

    def __init__(self, stream: IO[str], file: Path) -> None:
        self._stream = stream
        self._file = file
        self._text = ""
        self._place = 0
        self._decoder = json.JSONDecoder()

    def rows(self) -> Iterator[RawRow | Unread]:
        if self._next() != "[":
            raise TaskError(f"{self._file} is no JSON array", "name JSON lines, or an array of rows")
        self._place += 1
        while (sign := self._next()) != "]":
            if sign == ",":
                self._place += 1
                continue
            value = self._value()
            yield value if isinstance(value, dict) else Unread("it is no JSON object")
            self._text, self._place = self._text[self._place :], 0

    def _next(self) -> str:
        """The next character that is no blank."""
        while True:
            while self._place < len(self._text) and self._text[self._place].isspace():
                self._place += 1
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                raise TaskError(f"{self._file} ends in the middle of its array", "fetch it again")

    def _value(self) -> object:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                too_long = len(self._text) - self._place > MAX_ROW_BYTES
                if too_long or isinstance(error, RecursionError) or not self._more():
                    raise TaskError(f"{self._file} is damaged: {error}", "fetch it again") from error
                continue
            # A number at the end of a piece may go on in the next one; rows are objects, which have an end.
            self._place = end
            return value

    def _more(self) -> bool:
        # As much again as there is, so that a long row is not read over and over.
        piece = self._stream.read(max(_PIECE, len(self._text)))
        self._text += piece
        return bool(piece)


def _parquet(file: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise TaskError(f"{file} is no Parquet file: {error}", "fetch it again") from error


def _arrow(file: Path) -> Iterator[RawRow | Unread]:
    with pa.memory_map(str(file)) as source:
        try:
            reader: Iterable[pa.RecordBatch] = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            opened = pa.ipc.open_file(source)
            reader = (opened.get_batch(number) for number in range(opened.num_record_batches))
        yield from _batches(part for batch in reader for part in _slices(batch))


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)


def _batches(batches: Iterable[pa.RecordBatch]) -> Iterator[RawRow | Unread]:
    for batch in batches:
        yield from batch.to_pylist()


def _lines(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(1 for line in stream if line.strip())
