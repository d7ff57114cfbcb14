"""What engine calls returned, kept for the auditor: in memory, or in a file that survives the process.

Invariant: a log returns for a call exactly the ids and log-probs that were recorded for it, or nothing.

A record of a file log is ``id length, count (uint32 each), newest weight version (int32), id, int32 ids, float32
log-probs, CRC-32``, all little-endian, and is appended. One torn by a crash is cut off when the file is opened again.
Clearing the log empties the file; settling old calls leaves them there until they are most of it.
"""

import io
import os
import struct
import zlib
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import Sample
from lego_rl.errors import RunError

_HEAD = struct.Struct("<IIi")
_CHECK = struct.Struct("<I")
_BYTES_PER_TOKEN = 8
_NO_VERSION = -1
_LEAST_COMPACTED = 1 << 20
"""Bytes of settled calls below which a file is not worth writing anew."""


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

    def settle_before(self, version: int) -> None:
        """Drop the calls of which no token was sampled under this weight version or a later one."""
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
        self._versions: dict[str, int] = {}

    def record(self, sample: Sample) -> None:
        """Keep what a call returned."""
        self._held[sample.call_id] = _returned(sample)
        self._versions[sample.call_id] = _newest(sample)

    def lookup(self, call_id: str) -> Returned | None:
        """What a call returned; ``None`` for a call that is not held."""
        return self._held.get(call_id)

    def settle_before(self, version: int) -> None:
        """Drop the calls of which no token was sampled under this weight version or a later one."""
        for call_id in [call_id for call_id, newest in self._versions.items() if newest < version]:
            del self._held[call_id], self._versions[call_id]

    def clear(self) -> None:
        """Drop every call."""
        self._held.clear()
        self._versions.clear()

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
        self._path = path
        try:
            self._file = _opened(path)
        except OSError as error:
            raise RunError(f"cannot open the audit log {path}: {error}", "make its folder writable") from error
        self._places: dict[str, _Place] = {}
        self._settled_bytes = 0
        self._read_index()

    def record(self, sample: Sample) -> None:
        """Keep what a call returned; it is in the file when this returns."""
        returned = _returned(sample)
        body = returned.token_ids.astype("<i4").tobytes() + returned.logprobs.astype("<f4").tobytes()
        self._append(sample.call_id, len(returned.token_ids), _newest(sample), body)

    def lookup(self, call_id: str) -> Returned | None:
        """What a call returned; ``None`` for a call that is not held."""
        place = self._places.get(call_id)
        if place is None:
            return None
        body = self._body(place)
        return Returned(
            np.frombuffer(body, "<i4", place.count), np.frombuffer(body, "<f4", place.count, 4 * place.count)
        )

    def settle_before(self, version: int) -> None:
        """Drop the calls of which no token was sampled under this weight version or a later one; where the file is
        mostly of such, it is written anew."""
        for call_id in [call_id for call_id, place in self._places.items() if place.version < version]:
            self._settled_bytes += self._places.pop(call_id).count * _BYTES_PER_TOKEN
        kept = sum(place.count for place in self._places.values()) * _BYTES_PER_TOKEN
        if self._settled_bytes >= max(_LEAST_COMPACTED, kept):
            self._compact()

    def clear(self) -> None:
        """Drop every call and empty the file."""
        self._file.truncate(0)
        self._places.clear()
        self._settled_bytes = 0

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

    def _body(self, place: "_Place") -> bytes:
        self._file.seek(place.start)
        return self._file.read(place.count * _BYTES_PER_TOKEN)

    def _compact(self) -> None:
        """Write the calls that are held into a new file, which takes the old one's place when it is whole."""
        held = [(call_id, place, self._body(place)) for call_id, place in self._places.items()]
        partial = self._path.with_name(f"{self._path.name}.partial")
        partial.unlink(missing_ok=True)
        old, self._file = self._file, _opened(partial)
        old.close()
        self._places, self._settled_bytes = {}, 0
        for call_id, place, body in held:
            self._append(call_id, place.count, place.version, body)
        os.fsync(self._file.fileno())
        partial.replace(self._path)

    def _append(self, call_id: str, count: int, version: int, body: bytes) -> None:
        name = call_id.encode()
        record = _HEAD.pack(len(name), count, version) + name + body
        start = self._file.seek(0, io.SEEK_END)
        self._file.write(record + _CHECK.pack(zlib.crc32(record)))
        self._file.flush()
        self._places[call_id] = _Place(start + _HEAD.size + len(name), count, version)

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
        version: int
        name_length, count, version = _HEAD.unpack(head)
        length = name_length + count * _BYTES_PER_TOKEN
        end = start + _HEAD.size + length + _CHECK.size
        if end > size:
            return None
        rest = self._file.read(length)
        if _CHECK.unpack(self._file.read(_CHECK.size))[0] != zlib.crc32(head + rest):
            return None
        self._places[rest[:name_length].decode()] = _Place(start + _HEAD.size + name_length, count, version)
        return end


@dataclass(frozen=True)
class _Place:
    """Where in the file the ids and log-probs of a call are, how many, and the newest version of its tokens."""

    start: int
    count: int
    version: int


def _opened(path: Path) -> BufferedRandom:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _newest(sample: Sample) -> int:
    return max((span.version for span in sample.weight_versions), default=_NO_VERSION)


def _returned(sample: Sample) -> Returned:
    return Returned(np.array(sample.token_ids, np.int32), np.array(sample.logprobs, np.float32))
