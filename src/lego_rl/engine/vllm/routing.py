"""Which of several servers is asked: the one whose prefix cache knows the prompt, else the one with the least to do.

Invariant: the choice changes where a call is computed and never what it is about. A server is remembered to hold a
prompt's blocks once a call of it was sent there; it may have dropped them since, which costs a prefill.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from lego_rl.engine.vllm.replica import Replica

BLOCK = 128
"""Tokens of a block whose place is remembered."""
_MOST_BLOCKS = 200_000
_MOST_AHEAD = 8
"""A server that has so many calls more than another is not asked for its cache's sake."""


class PrefixRouter:
    """Chooses among servers.

    Args:
        replicas: At least one.
    """

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = replicas
        self._held: list[OrderedDict[bytes, None]] = [OrderedDict() for _ in replicas]

    def choose(self, prompt_ids: Sequence[int], without: Sequence[Replica] = ()) -> Replica:
        """The server to ask, which is now remembered to hold the prompt.

        Args:
            prompt_ids: ``[P]``.
            without: Servers that failed this call already; one of them is taken only if there is no other.
        """
        if len(self._replicas) == 1:
            return self._replicas[0]
        chain = _chain(prompt_ids)
        able = [i for i, each in enumerate(self._replicas) if each not in without] or range(len(self._replicas))
        idlest = min(self._replicas[i].running for i in able)
        free = [i for i in able if self._replicas[i].running <= idlest + _MOST_AHEAD]
        best = max(free, key=lambda i: (self._known(i, chain), -self._replicas[i].running))
        self._remember(best, chain)
        return self._replicas[best]

    def forget(self) -> None:
        """No server's cache holds anything any more: it has other weights."""
        for held in self._held:
            held.clear()

    def _known(self, index: int, chain: Sequence[bytes]) -> int:
        held = self._held[index]
        return next((i for i, key in enumerate(chain) if key not in held), len(chain))

    def _remember(self, index: int, chain: Sequence[bytes]) -> None:
        held = self._held[index]
        for key in chain:
            held[key] = None
            held.move_to_end(key)
        while len(held) > _MOST_BLOCKS:
            held.popitem(last=False)


def _chain(prompt_ids: Sequence[int]) -> list[bytes]:
    """One key for every whole block: of its ids and all before them."""
    ids = np.asarray(prompt_ids, "<i4")
    hashed = hashlib.blake2b(digest_size=8)
    chain = []
    for start in range(0, len(ids) - BLOCK + 1, BLOCK):
        hashed.update(ids[start : start + BLOCK].tobytes())
        chain.append(hashed.digest())
    return chain
