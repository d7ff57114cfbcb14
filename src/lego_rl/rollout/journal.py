"""The journal: what happened in a run, in order, in one append-only file that survives a crash at any byte.

Invariants: an entry counts once its line is complete, numbered in sequence and matches its checksum; an entry that
`append` returned from is on the disk; only one process writes. A torn last line is what a crash leaves and is dropped;
damage anywhere else is an error, never skipped.

A line is a JSON object ``{"n": number, "at": Unix seconds, "kind": …, "data": {…}, "crc": CRC-32 of the rest, hex}``.
"""

import errno
import json
import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lego_rl.documents import read_json
from lego_rl.durable import sync_folder
from lego_rl.errors import RunError
from lego_rl.messages import Json
from lego_rl.rollout.lock import lock


@dataclass(frozen=True)
class Entry:
    """One line of the journal.

    Attributes:
        number: Place in the journal, from 0.
        at: When it was written, Unix seconds.
        kind: What happened, such as ``trial-scored``.
        data: Its particulars.
    """

    number: int
    at: float
    kind: str
    data: Mapping[str, Json]


class Journal:
    """The single writer of a journal. Use it as a context manager, or call `close`.

    Args:
        path: The file; it is created where it does not exist.

    Raises:
        RunError: It cannot be opened, another process writes it, or it is damaged before its last line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunError(f"cannot open the journal {path}: {error}", "make it a file that you may write") from error
        try:
            lock(self._file, path)
            self._entries, self._size = _parse(path.read_bytes(), path)
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
            sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every entry, in order, those of earlier processes included."""
        return tuple(self._entries)

    def append(self, kind: str, data: Mapping[str, Json]) -> Entry:
        """Write one entry and wait until it is on the disk.

        Raises:
            RunError: The disk did not take it; the journal is as it was before.
        """
        entry = Entry(number=len(self._entries), at=time.time(), kind=kind, data=dict(data))
        line = _encode(entry)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fdatasync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise RunError(
                f"cannot write {self.path}: {error.strerror}",
                "free disk space, then go on with the same command (train: --resume)",
            ) from error
        self._size += len(line)
        self._entries.append(entry)
        return entry

    def close(self) -> None:
        """Give up the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> tuple[Entry, ...]:
    """The entries of a journal that another process may be writing.

    Raises:
        RunError: It cannot be read, or is damaged before its last line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read the journal {path}: {error}", "name a run directory") from error
    return tuple(_parse(raw, path)[0])


def _encode(entry: Entry) -> bytes:
    body = {"n": entry.number, "at": entry.at, "kind": entry.kind, "data": entry.data}
    return (json.dumps(body | {"crc": _checksum(body)}, ensure_ascii=False) + "\n").encode()


def _checksum(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{zlib.crc32(canonical.encode()):08x}"


def _parse(raw: bytes, path: Path) -> tuple[list[Entry], int]:
    """The entries of `raw`, and how many of its bytes hold them."""
    entries: list[Entry] = []
    whole = 0
    for line in raw.splitlines(keepends=True):
        entry = _decode(line, number=len(entries))
        if entry is None:
            break
        entries.append(entry)
        whole += len(line)
    if b"\n" in raw[whole:-1]:
        raise RunError(
            f"line {len(entries) + 1} of {path} is damaged and is not the last",
            "restore the file from a copy; what follows the line cannot be trusted",
        )
    return entries, whole


def _decode(line: bytes, number: int) -> Entry | None:
    """The entry of a line; ``None`` where the line is torn, altered or out of sequence."""
    if not line.endswith(b"\n"):
        return None
    try:
        body = read_json(line)
        checksum = body.pop("crc")
        entry = Entry(number=body["n"], at=body["at"], kind=body["kind"], data=body["data"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if checksum == _checksum(body) and entry.number == number else None
