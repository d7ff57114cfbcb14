"""How the demonstrator errs: one independent draw for each kind of mistake, before the trial begins.

Invariant: every mistake alone makes the trial fail. The share of trials without one is the demonstrator's solve rate.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from pydantic import Field

from lego_rl.settings import Settings

_TOKEN = re.compile(r"\w+|[^\w\s]+|\s+")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[a-z]\w*")
_CLASSES = (
    ("+", "-", "*", "//", "%"),
    ("<", "<=", ">", ">="),
    ("min", "max", "sum", "len"),
)


class Mistake(StrEnum):
    """What can go wrong in a demonstration."""

    WRONG_FILE = "wrong_file"
    """Follows the other function that the issue names, and edits there."""
    STOPS_EARLY = "stops_early"
    """Ends with a text after reading, without an edit."""
    MALFORMED = "malformed"
    """Writes an edit that cannot be parsed, which ends the trial."""
    WRONG_LINE = "wrong_line"
    """Edits another line of the right file."""
    WRONG_FIX = "wrong_fix"
    """Edits the right line into something else that is wrong."""


class MistakeRates(Settings):
    """Probability of each mistake; the draws are independent."""

    wrong_file: float = Field(default=0.25, ge=0, le=1)
    """Editing the other function that the issue names."""
    stops_early: float = Field(default=0.25, ge=0, le=1)
    """Ending without an edit."""
    malformed: float = Field(default=0.2, ge=0, le=1)
    """Writing an edit that cannot be parsed."""
    wrong_line: float = Field(default=0.1, ge=0, le=1)
    """Editing another line of the right file."""
    wrong_fix: float = Field(default=0.2, ge=0, le=1)
    """Writing something else that is wrong on the right line."""

    @property
    def solve_rate(self) -> float:
        """Probability of no mistake at all."""
        return prod(1 - self._rate(mistake) for mistake in Mistake)

    def draw(self, rng: random.Random) -> frozenset[Mistake]:
        """The mistakes of one trial."""
        return frozenset(mistake for mistake in Mistake if rng.random() < self._rate(mistake))

    def _rate(self, mistake: Mistake) -> float:
        rate: float = getattr(self, mistake.value)
        return rate


def break_call(rng: random.Random, call: str) -> str:
    """The same tool call without its function's opening or its closing line."""
    lines = call.split("\n")
    del lines[rng.choice((1, -2))]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Change:
    """Where a fix differs from the bug: ``prefix + wrong + suffix`` became ``prefix + right + suffix``, in tokens."""

    prefix: tuple[str, ...]
    wrong: tuple[str, ...]
    right: tuple[str, ...]
    suffix: tuple[str, ...]

    @classmethod
    def between(cls, before: str, after: str) -> "_Change":
        old, new = _TOKEN.findall(before), _TOKEN.findall(after)
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        return cls(
            tuple(old[:start]),
            tuple(old[start : len(old) - end]),
            tuple(new[start : len(new) - end]),
            tuple(old[len(old) - end :]),
        )


def wrong_fix(rng: random.Random, before: str, after: str, names: Sequence[str]) -> str:
    """A change at the right place that is neither the bug nor its fix.

    Args:
        rng: Picks among the alternatives.
        before: The wrong line.
        after: The right line.
        names: Names at hand, from which a wrong one is taken.
    """
    change = _Change.between(before, after)
    lines = ["".join((*change.prefix, option, *change.suffix)) for option in _alternatives(change, names)]
    return rng.choice([line for line in lines if line not in (before, after)])


def _alternatives(change: _Change, names: Sequence[str]) -> list[str]:
    """Fragments to put in place of the right one; the right and the wrong one may be among them."""
    right = "".join(change.right)
    for symbols in _CLASSES:
        if right in symbols:
            return list(symbols)
    if _NUMBER.fullmatch(right):
        return [str(int(right) + step) for step in (-1, 1)]
    if _NAME.fullmatch(right):
        return list(names)
    swapped = _NAME.findall(right)
    if len(swapped) > 1:  # the same argument twice
        return [right.replace(swapped[0], swapped[1]), right.replace(swapped[1], swapped[0])]
    return [" - 1", "", " + 1"]  # a bound
