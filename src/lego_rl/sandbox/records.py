"""File trees as a stream of records: the form in which files enter and leave a sandbox.

Invariant: a path that comes out of a sandbox is relative, plain and below the folder that it is written to; links are
written as links and never followed. The other end is ``inside_files.py``, which has the form.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lego_rl.errors import SandboxError
from lego_rl.sandbox.inside_files import DELETED, DIRECTORY, FILE, RECORD, SYMLINK

MAX_RECORDS = 20_000
TRANSFER_DEPTH = 64
"""Of what is put into a sandbox or read out of one while it lives; a diff, on the host, may go deeper."""
MAX_PATH_BYTES = 1_024
FETCH_LESS = "fetch another folder, or the files in it that are wanted one by one"
ALTERED = "look at what the agent ran: a process of the sandbox ended or changed the transfer"

type RecordKind = Literal["file", "symlink", "directory", "deleted"]
"""What a record makes of its path."""

_CODES: dict[RecordKind, bytes] = {"file": FILE, "symlink": SYMLINK, "directory": DIRECTORY, "deleted": DELETED}
_KINDS: dict[bytes, RecordKind] = {code: kind for kind, code in _CODES.items()}


@dataclass(frozen=True)
class Record:
    """One path of a tree.

    Attributes:
        path: Relative to the tree's root; empty for a tree that is a single file.
        kind: What it is, or that it is to be deleted.
        content: Bytes of a file or target of a link.
        mode: Permission bits of a file or folder.
    """

    path: str
    kind: RecordKind
    content: bytes = b""
    mode: int = 0o644


def encode(records: Iterable[Record]) -> bytes:
    """The stream of some records."""
    parts = []
    for record in records:
        path = os.fsencode(record.path)
        parts += [RECORD.pack(_CODES[record.kind], record.mode, len(record.content), len(path)), path, record.content]
    return b"".join(parts)


class RecordReader:
    """Takes a stream apart as it comes, so that no more than one record of it is there twice.

    Args:
        most: How many records there may be.

    Attributes:
        records: Those that have come.
    """

    def __init__(self, most: int = MAX_RECORDS) -> None:
        self.records: list[Record] = []
        self._most = most
        self._rest = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the stream.

        Raises:
            SandboxError: They are of no record, or of too many; a sandbox's processes can bring that about.
        """
        self._rest += piece
        position = 0
        with memoryview(self._rest) as rest:
            while (found := _record_at(rest, position)) is not None:
                record, position = found
                if len(self.records) == self._most:
                    raise SandboxError(
                        f"a file transfer from the sandbox holds more than {self._most} paths", FETCH_LESS
                    )
                self.records.append(record)
        del self._rest[:position]

    def end(self) -> None:
        """There is no more.

        Raises:
            SandboxError: The last record is not whole; a sandbox's processes can bring that about.
        """
        if self._rest:
            raise SandboxError("a file transfer from the sandbox was cut short", ALTERED)


def decode(stream: bytes, most: int = MAX_RECORDS) -> list[Record]:
    """The records of a whole stream; see `RecordReader`."""
    reader = RecordReader(most)
    reader.feed(stream)
    reader.end()
    return reader.records


def _record_at(stream: memoryview, position: int) -> tuple[Record, int] | None:
    """The record at a position and the position after it; ``None`` where the stream does not hold all of it yet."""
    if len(stream) - position < RECORD.size:
        return None
    code, mode, size, length = RECORD.unpack_from(stream, position)
    if code not in _KINDS:
        raise SandboxError("a file transfer from the sandbox was altered", ALTERED)
    start = position + RECORD.size
    end = start + length + size
    if len(stream) < end:
        return None
    path = os.fsdecode(bytes(stream[start : start + length]))
    return Record(path, _KINDS[code], bytes(stream[start + length : end]), mode & 0o777), end


def is_plain(path: str) -> bool:
    """Whether `path` is relative and has no empty, ``.`` or ``..`` part."""
    return bool(path) and not path.startswith("/") and all(part not in ("", ".", "..") for part in path.split("/"))


def read_tree(source: Path) -> Iterator[Record]:
    """Records of a file or folder of the host, links as links; special files are left out."""
    if not source.is_dir():
        yield Record("", "file", source.read_bytes(), stat.S_IMODE(source.stat().st_mode) & 0o777)
        return
    for path in sorted(source.rglob("*")):
        relative, status = path.relative_to(source).as_posix(), path.lstat()
        if stat.S_ISLNK(status.st_mode):
            yield Record(relative, "symlink", os.fsencode(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            yield Record(relative, "directory", mode=0o755)
        elif stat.S_ISREG(status.st_mode):
            yield Record(relative, "file", path.read_bytes(), stat.S_IMODE(status.st_mode) & 0o777)


def write_tree(records: Iterable[Record], target: Path) -> None:
    """Write what came out of a sandbox below `target`, replacing what is there.

    Raises:
        SandboxError: A path leads outside `target`, or is longer or deeper than the host should bear.
    """
    target.mkdir(parents=True, exist_ok=True)
    for record in records:
        deep = record.path.count("/") >= TRANSFER_DEPTH or len(os.fsencode(record.path)) > MAX_PATH_BYTES
        if deep or not is_plain(record.path):
            raise SandboxError(f"the sandbox sent a file named {record.path[:200]!r}", FETCH_LESS)
        _clear_way(target, record)
        path = target / record.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if record.kind == "directory":
            path.mkdir(exist_ok=True)
        elif record.kind == "symlink":
            path.symlink_to(os.fsdecode(record.content))
        elif record.kind == "file":
            path.write_bytes(record.content)
            path.chmod(0o644 | (record.mode & 0o111))


def _clear_way(target: Path, record: Record) -> None:
    """Remove what stands in a record's way: links and files at any part of its path, a folder where it is none."""
    path = target
    for part in record.path.split("/"):
        path /= part
        if path.is_symlink() or path.is_file():
            path.unlink()
    if record.kind != "directory" and path.is_dir():
        shutil.rmtree(path)
