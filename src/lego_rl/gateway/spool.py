"""Expert routes on the disk while a trial runs: they are most of what is captured, and are needed only at its end.

Invariant: what `RouteSpool.keep` returns is equal to what it was given, and costs no memory until it is read; the file
has no name, so nothing is left of it however this process ends.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEMPORARY = Path(tempfile.gettempdir())
"""Where files go that nobody has a better place for."""

_FIRST_MAP = 256 << 20
"""Bytes of the first mapping, of which only those that are written take room on the disk; each further one is twice as
large, for a mapping holds a file handle."""


class RouteSpool:
    """The routes of one session.

    Args:
        folder: Where the file lies; on a disk, for a file in memory would spare nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._map: mmap.mmap | None = None
        self._start = 0
        self._used = 0

    def keep(self, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Write rows, and return them as they are read from the disk when somebody does.

        Args:
            rows: ``[n, layers, top_k]``.

        Raises:
            OSError: The disk does not take them.
        """
        size = rows.nbytes
        if not size:
            return rows
        if self._map is None or self._used + size > len(self._map):
            self._map = self._grow(size)
        view = memoryview(np.ascontiguousarray(rows)).cast("B")
        place = self._start + self._used
        while view:
            written = os.pwrite(self._file, view, place)
            view, place = view[written:], place + written
        kept = np.frombuffer(self._map, np.uint8, size, self._used).reshape(rows.shape)
        self._used += size
        return kept

    def close(self) -> None:
        """Keep nothing more. What was kept stays readable as long as somebody holds it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._map = None

    def _grow(self, size: int) -> mmap.mmap:
        """Another mapping, of the part of the file that comes next."""
        if self._file < 0:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                self._file = os.dup(file.fileno())
        held = len(self._map) if self._map is not None else 0
        self._start += held
        self._used = 0
        length = max(2 * held, _FIRST_MAP, -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY)
        os.ftruncate(self._file, self._start + length)
        return mmap.mmap(self._file, length, prot=mmap.PROT_READ, offset=self._start)


def joined(pieces: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """All rows, one piece after the other. Pieces that were kept in this order lie so already, and are not copied.

    Args:
        pieces: ``[n, layers, top_k]`` each, at least one.
    """
    first, last = pieces[0], pieces[-1]
    buffer = _buffer(first)
    ends = [_address(piece) + piece.nbytes for piece in pieces[:-1]]
    is_one = buffer is not None and all(
        piece.flags.c_contiguous and _buffer(piece) is buffer and _address(piece) == end
        for piece, end in zip(pieces[1:], ends, strict=True)
    )
    if buffer is None or not is_one or not first.flags.c_contiguous:
        return np.concatenate(pieces)
    size = _address(last) + last.nbytes - _address(first)
    start = _address(first) - _address(np.frombuffer(buffer, np.uint8))
    return np.frombuffer(buffer, np.uint8, size, start).reshape(-1, *first.shape[1:])


def _address(rows: NDArray[np.uint8]) -> int:
    address: int = rows.__array_interface__["data"][0]
    return address


def _buffer(rows: NDArray[np.uint8]) -> mmap.mmap | None:
    """The mapping that rows are a view of; ``None`` where they lie in memory."""
    base: object = rows
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) else base
    return held if isinstance(held, mmap.mmap) else None
