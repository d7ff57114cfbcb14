"""Names for one task: drawn without replacement, function names from the split's own share of all names.

Invariant: a function name belongs to exactly one split, by its checksum, so no split can ever hold another's function.
"""

import random
import zlib
from typing import Literal, get_args

from lego_rl.tasks.words import NOUNS, VERBS

type Split = Literal["train", "heldout", "unseen", "warm"]
"""``train`` and ``heldout``: the eight trained families. ``unseen``: the two families that are only ever evaluated.
``warm``: trained families again, for demonstrations; in no pool."""

SPLITS: tuple[Split, ...] = get_args(Split.__value__)

_SHARES: dict[Split, int] = {"train": 6, "heldout": 3, "unseen": 1, "warm": 6}
_BUCKETS: tuple[Split, ...] = tuple(split for split in SPLITS for _ in range(_SHARES[split]))


def split_of_function(name: str) -> Split:
    """The split that owns a function name."""
    return _BUCKETS[zlib.crc32(name.encode()) % len(_BUCKETS)]


class Namer:
    """Draws the names of one task.

    Args:
        rng: The task's random numbers.
        split: Function names come from this split's share.
    """

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng = rng
        self._split = split
        self._nouns = rng.sample(NOUNS, len(NOUNS))
        self._functions: list[str] = []

    def noun(self) -> str:
        """A word that no earlier call returned."""
        return self._nouns.pop()

    def nouns(self, count: int) -> tuple[str, ...]:
        """`count` fresh words."""
        return tuple(self.noun() for _ in range(count))

    def function(self) -> str:
        """A fresh function name of the form ``verb_noun``; none begins with another of the task."""
        while True:
            name = f"{self.rng.choice(VERBS)}_{self.rng.choice(NOUNS)}"
            clash = any(name.startswith(other) or other.startswith(name) for other in self._functions)
            if not clash and split_of_function(name) == self._split:
                self._functions.append(name)
                return name

    def path_word(self) -> str:
        """One word, or at one time in three two joined by ``_``, for a file."""
        return "_".join(self.nouns(2 if self.rng.random() < 1 / 3 else 1))

    def number(self, low: int = 2, high: int = 20) -> int:
        """A whole number from `low` to `high`."""
        return self.rng.randint(low, high)

    def numbers(self, count: int = 4, low: int = 1, high: int = 9) -> list[int]:
        """A list of whole numbers."""
        return [self.rng.randint(low, high) for _ in range(count)]
