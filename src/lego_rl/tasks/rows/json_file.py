"""Rows of JSON files, told by what is in them and not by their names: lines, arrays, and objects that hold an array.

A file whose first value is followed by more is JSON lines. One whose only value is an array has its values as rows; an
object has those of the array that it calls ``rows`` or ``instances``, and is a row itself where it has none. A byte
order mark is no part of any of them.
"""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from lego_rl.documents import read_json
from lego_rl.errors import TaskError
from lego_rl.tasks.rows import row
from lego_rl.tasks.rows.json_values import DamagedError, Values
from lego_rl.tasks.rows.row import Unread, bearable, id_in_text

WRAPPED = (b'"rows"', b'"instances"')
"""What an object calls its array of rows."""
_FIX = "name JSON lines, an array of rows, or an object with such an array as rows or instances"
_OTHER = {
    codecs.BOM_UTF16_LE: ("is UTF-16", "write it as UTF-8"),
    codecs.BOM_UTF16_BE: ("is UTF-16", "write it as UTF-8"),
    b"\x1f\x8b": ("is compressed", "unpack it"),
    b"PK\x03\x04": ("is an archive", "unpack it"),
    b"\x28\xb5\x2f\xfd": ("is compressed", "unpack it"),
    b"PAR1": ("is Parquet", "give it the suffix .parquet"),
}
type Shape = Literal["lines", "array", "object", "nothing"]


def json_rows(file: Path) -> Iterator[tuple[int, object | Unread]]:
    """Every row of a file, after its number; one that is no JSON is one row with a reason.

    The number of a row of JSON lines is that of its line, blank ones counted; of any other, that of the row.

    Raises:
        TaskError: It is no JSON at all, or its brackets or quotes are not closed; what comes before is read.
        OSError: It cannot be read.
    """
    with file.open("rb") as stream:
        try:
            match _shape(stream, file):
                case "lines":
                    yield from _lines(stream)
                case "array":
                    yield from enumerate(_arrays(Values(stream)), start=1)
                case "object":
                    yield from enumerate(_of_object(stream), start=1)
                case "nothing":
                    return
        except DamagedError as error:
            raise TaskError(f"{file} {error}", "fetch it again; the rows before it can be used") from error


def count_json_rows(file: Path) -> int | None:
    """How many rows a file has, where they can be counted without reading them.

    Raises:
        TaskError: As `json_rows`.
        OSError: Likewise.
    """
    with file.open("rb") as stream:
        if _shape(stream, file) != "lines":
            return None
        return sum(1 for line in stream if line.strip())


def _shape(stream: IO[bytes], file: Path) -> Shape:
    """How rows stand in a file; leaves the stream before its first value."""
    head = stream.read(4)
    for sign, (what, fix) in _OTHER.items():
        if head.startswith(sign):
            raise TaskError(f"{file} {what}", fix)
    start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    stream.seek(start)
    shape = _shape_of(Values(stream), file)
    stream.seek(start)
    if shape is None:
        shape = _lines_or("array", Values(stream), file)
        stream.seek(start)
    return shape


def _shape_of(values: Values, file: Path) -> Shape | None:
    """By how it begins; ``None`` where the brackets of an array of texts may also be those of a line."""
    match values.peek():
        case b"":
            return "nothing"
        case b"{":
            return _lines_or("object", values, file)
        case b"[":
            values.skip(b"[")
            return None if values.peek() == b'"' else "array"
        case b'"':
            return "lines"
        case _ if _has_lines_by_name(file):
            return "lines"
    raise TaskError(f"{file} holds no JSON", _FIX)


def _lines_or(single: Shape, values: Values, file: Path) -> Shape:
    """Lines where something follows the first value, which may be damaged; else what it is."""
    try:
        values.pass_value()
    except DamagedError:
        return "lines" if _has_lines_by_name(file) else single
    return "lines" if values.peek() else single


def _has_lines_by_name(file: Path) -> bool:
    return file.suffix.lower() in (".jsonl", ".ndjson")


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, object | Unread]]:
    number = 0
    while line := stream.readline(row.MAX_ROW_BYTES + 1):
        number += 1
        if len(line) > row.MAX_ROW_BYTES:
            instance = id_in_text(line[: 1 << 20])
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
            yield number, _too_long(instance)
        elif line.strip():
            yield number, _row(line)


def _arrays(values: Values) -> Iterator[object | Unread]:
    """The values of an array, and of those that stand after it."""
    while values.peek():
        yield from _array(values)


def _array(values: Values) -> Iterator[object | Unread]:
    values.skip(b"[")
    while (sign := values.peek()) != b"]":
        if sign == b",":
            values.skip(sign)
            continue
        text = values.value()
        yield _too_long() if text is None else _row(text)
    values.skip(b"]")


def _of_object(stream: IO[bytes]) -> Iterator[object | Unread]:
    start, values, wrapped = stream.tell(), Values(stream), False
    values.skip(b"{")
    while (sign := values.peek()) != b"}":
        if sign == b",":
            values.skip(sign)
            continue
        name = values.value()
        values.skip(b":")
        if name in WRAPPED and values.peek() == b"[":
            wrapped = True
            yield from _array(values)
        else:
            values.pass_value()
    if not wrapped:
        stream.seek(start)
        text = Values(stream).value()
        yield _too_long() if text is None else _row(text)


def _row(text: bytes) -> object | Unread:
    try:
        return bearable(read_json(text.decode()), id_in_text(text))
    except ValueError as error:
        return Unread(f"it is no JSON: {error}", id_in_text(text))


def _too_long(instance: str = "") -> Unread:
    return Unread(f"it has more than {row.MAX_ROW_BYTES >> 20} MiB", instance)
