"""Which calls belong together: a call that goes on with an earlier one goes to the server that holds its prefix.

Invariant: a call gets the session of the longest earlier prompt and answer that its own prompt begins with, and a new
one where there is none. So trials of one task, which begin alike, are spread, and every conversation stays where it is.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

_REMEMBERED = 8_192
"""Ends of answers that are remembered; one that is forgotten only costs a prefill."""


class StickySessions:
    """Remembers where the answers of every conversation end, by digests."""

    def __init__(self) -> None:
        self._session_of: OrderedDict[tuple[int, bytes], str] = OrderedDict()
        self._lengths: Counter[int] = Counter()

    def of(self, prompt_ids: NDArray[np.int32]) -> str:
        """The session of a call."""
        session = None
        for end in self._ends(prompt_ids):
            if end in self._session_of:
                self._session_of.move_to_end(end)
                session = self._session_of[end]
        return session or uuid4().hex

    def grew(self, session: str, prompt_ids: NDArray[np.int32], token_ids: Sequence[int]) -> None:
        """A call of a session was answered: whoever goes on with it belongs there."""
        ids = np.concatenate([prompt_ids, np.asarray(token_ids, np.int32)])
        end = (len(ids), _state(ids).digest())
        self._lengths[len(ids)] += end not in self._session_of
        self._session_of[end] = session
        while len(self._session_of) > _REMEMBERED:
            (length, _), _ = self._session_of.popitem(last=False)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def _ends(self, ids: NDArray[np.int32]) -> Iterator[tuple[int, bytes]]:
        """Where a remembered answer could end in `ids`, from the first on; the ids are read once."""
        state, start = _state(ids[:0]), 0
        for length in sorted(length for length in self._lengths if length <= len(ids)):
            state.update(np.ascontiguousarray(ids[start:length], np.int32))
            start = length
            yield length, state.digest()


def _state(ids: NDArray[np.int32]) -> "hashlib.blake2b":
    return hashlib.blake2b(np.ascontiguousarray(ids, np.int32), digest_size=16)
