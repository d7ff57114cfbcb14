"""The band of solve rates that a task is kept for, and what trials that are still missing can change.

A task is in the band ``low..high`` of ``n`` where at least `low` and at most `high` of its ``n`` trials solve it. With
fewer trials it may be decided already, for better or worse; where it is not, this says how many more decide.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from lego_rl.errors import ConfigError

type Counts = npt.NDArray[np.int64]


class Decision(IntEnum):
    """What a task's trials say."""

    UNDECIDED = 0
    """Trials that are still missing can put it in the band or out of it."""
    IN = 1
    """In the band, whatever the missing trials say."""
    BELOW = 2
    """Solved too seldom, whatever the missing trials say."""
    ABOVE = 3
    """Solved too often, likewise."""


@dataclass(frozen=True)
class Missing:
    """How many more trials decide.

    Attributes:
        least: ``[tasks]`` trials after which it may be decided, at best.
        most: ``[tasks]`` trials after which it is, whatever they say.
    """

    least: Counts
    most: Counts


@dataclass(frozen=True)
class Band:
    """Solved at least `low` and at most `high` times of `of`.

    Raises:
        ConfigError: There is no such band.
    """

    low: int
    high: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= self.of or self.of < 1 or self.of > MOST_TRIALS:
            raise ConfigError(
                f"--solved {self.low}..{self.high} --of {self.of} is no band",
                f"choose 0 <= low <= high <= of, and at most {MOST_TRIALS} trials, as in --solved 1..3 --of 4",
            )

    @classmethod
    def parse(cls, solved: str, of: int) -> "Band":
        """A band as the command line has it: ``1..3``, or ``2`` for exactly two.

        Raises:
            ConfigError: It is none.
        """
        low, dots, high = solved.partition("..")
        try:
            return cls(int(low), int(high if dots else low), of)
        except ValueError as error:
            raise ConfigError(f"--solved {solved} is no range", "write it as in --solved 1..3") from error

    def decide(self, solved: Counts, known: Counts) -> Counts:
        """A `Decision` a task.

        Args:
            solved: ``[tasks]`` of the trials that are known.
            known: ``[tasks]`` trials with a reward, in ``[0, of]``.
        """
        most = solved + self.of - known
        return np.select(
            [solved > self.high, most < self.low, (solved >= self.low) & (most <= self.high)],
            [Decision.ABOVE, Decision.BELOW, Decision.IN],
            Decision.UNDECIDED,
        ).astype(np.int64)

    def missing(self, solved: Counts, known: Counts) -> Missing:
        """How many more trials decide each task; 0 where it is decided."""
        least, most = self._tables()
        return Missing(least[known, solved], most[known, solved])

    def _tables(self) -> tuple[Counts, Counts]:
        """``[known, solved]``, from the last trial backwards: one more trial leads to one of two further cells."""
        least = np.zeros((self.of + 1, self.of + 1), dtype=np.int64)
        most = np.zeros_like(least)
        for known in range(self.of - 1, -1, -1):
            solved = np.arange(known + 1)
            decided = self.decide(solved, np.full_like(solved, known)) != Decision.UNDECIDED
            failed, passed = (known + 1, solved), (known + 1, solved + 1)
            least[known, solved] = np.where(decided, 0, 1 + np.minimum(least[failed], least[passed]))
            most[known, solved] = np.where(decided, 0, 1 + np.maximum(most[failed], most[passed]))
        return least, most


MOST_TRIALS = 256
"""Trials of a band, at most: more than anybody runs of one task."""
