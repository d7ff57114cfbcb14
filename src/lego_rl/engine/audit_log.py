"""What engine calls returned, kept for the auditor: in memory, or in a file that survives the process.

Invariant: a log returns for a call exactly the ids and log-probs that were recorded for it, or nothing.

A file log is append-only. A record is ``id length, count (uint32 each), id, int32 ids, float32 log-probs, CRC-32``, all
little-endian. A record torn by a crash is cut off when the file is opened again. Clearing the log empties the file.
"""

import io
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import Sample
from lego_rl.errors import RunError

_HEAD = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_BYTES_PER_TOKEN = 8


@dataclass(frozen=True)
class Returned:
    """What one call returned: ``[T]`` int32 ids and ``[T]`` float32 log-probs."""

    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


class AuditLog(Protocol):
    """Where an auditor keeps calls."""

    def record(self, sample: Sample) -> None:
        """Keep what a call returned."""
        ...

    def lookup(self, call_id: str) -> Returned | None:
        """What a call returned; ``None`` for a call that is not held."""
        ...

    def clear(self) -> None:
        """Drop every call."""
        ...

    def __len__(self) -> int:
        """Calls held."""
        ...


class MemoryAuditLog:
    """An `AuditLog` of this process: 8 bytes a token until it is cleared."""

    def __init__(self) -> None:
        self._held: dict[str, Returned] = {}

    def record(self, sample: Sample) -> None:
        """Keep what a call returned."""
        self._held[sample.call_id] = _returned(sample)

    def lookup(self, call_id: str) -> Returned | None:
        """What a call returned; ``None`` for a call that is not held."""
        return self._held.get(call_id)

    def clear(self) -> None:
        """Drop every call."""
        self._held.clear()

    def __len__(self) -> int:
        """Calls held."""
        return len(self._held)


class FileAuditLog:
    """An `AuditLog` in a file; memory holds an index only. A run that is resumed opens the same file again.

    Args:
        path: The file; made if it is missing.

    Raises:
        RunError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        except OSError as error:
            raise RunError(f"cannot open the audit log {path}: {error}", "make its folder writable") from error
        self._places: dict[str, tuple[int, int]] = {}
        self._read_index()

    def record(self, sample: Sample) -> None:
        """Keep what a call returned; it is in the file when this returns."""
        returned = _returned(sample)
        body = returned.token_ids.astype("<i4").tobytes() + returned.logprobs.astype("<f4").tobytes()
        self._append(sample.call_id, len(returned.token_ids), body)

    def lookup(self, call_id: str) -> Returned | None:
        """What a call returned; ``None`` for a call that is not held."""
        place = self._places.get(call_id)
        if place is None:
            return None
        start, count = place
        self._file.seek(start)
        body = self._file.read(count * _BYTES_PER_TOKEN)
        return Returned(np.frombuffer(body, "<i4", count), np.frombuffer(body, "<f4", count, 4 * count))

    def clear(self) -> None:
        """Drop every call and empty the file."""
        self._file.truncate(0)
        self._places.clear()

    def close(self) -> None:
        """Close the file, which stays."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Calls held."""
        return len(self._places)

    def _append(self, call_id: str, count: int, body: bytes) -> None:
        name = call_id.encode()
        record = _HEAD.pack(len(name), count) + name + body
        start = self._file.seek(0, io.SEEK_END)
        self._file.write(record + _CHECK.pack(zlib.crc32(record)))
        self._file.flush()
        self._note(call_id, start + _HEAD.size + len(name), count)

    def _note(self, call_id: str, body_start: int, count: int) -> None:
        self._places[call_id] = (body_start, count)

    def _read_index(self) -> None:
        size = self._file.seek(0, io.SEEK_END)
        start = 0
        while (end := self._read_record(start, size)) is not None:
            start = end
        self._file.truncate(start)

    def _read_record(self, start: int, size: int) -> int | None:
        """Index the record at `start`; returns its end, or ``None`` if no whole record is there."""
        if start + _HEAD.size > size:
            return None
        self._file.seek(start)
        head = self._file.read(_HEAD.size)
        name_length: int
        count: int
        name_length, count = _HEAD.unpack(head)
        length = name_length + count * _BYTES_PER_TOKEN
        end = start + _HEAD.size + length + _CHECK.size
        if end > size:
            return None
        rest = self._file.read(length)
        if _CHECK.unpack(self._file.read(_CHECK.size))[0] != zlib.crc32(head + rest):
            return None
        self._note(rest[:name_length].decode(), start + _HEAD.size + name_length, count)
        return end


def _returned(sample: Sample) -> Returned:
    return Returned(np.array(sample.token_ids, np.int32), np.array(sample.logprobs, np.float32))
