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

_SHARES: dict[Split, int] = {"train": 6, "heldout": 3, "unseen": 2, "warm": 5}
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
        self._verbs = rng.sample(VERBS, len(VERBS))

    def noun(self) -> str:
        """A word that no earlier call returned."""
        return self._nouns.pop()

    def nouns(self, count: int) -> tuple[str, ...]:
        """`count` fresh words."""
        return tuple(self.noun() for _ in range(count))

    def function(self) -> str:
        """A function name of the form ``verb_noun``, with a verb that no earlier call used."""
        own: list[str] = []
        while not own:
            verb = self._verbs.pop()
            own = [noun for noun in self._nouns if split_of_function(f"{verb}_{noun}") == self._split]
        noun = self.rng.choice(own)
        self._nouns.remove(noun)
        return f"{verb}_{noun}"

    def number(self, low: int = 2, high: int = 20) -> int:
        """A whole number from `low` to `high`."""
        return self.rng.randint(low, high)

    def numbers(self, count: int = 4, low: int = 1, high: int = 9) -> list[int]:
        """A list of whole numbers."""
        return [self.rng.randint(low, high) for _ in range(count)]
