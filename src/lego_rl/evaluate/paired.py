"""Whether two evaluations of the same tasks can be told apart.

Invariant: tasks are the units. Attempts of one task are alike, so nothing here takes them for independent: McNemar's
test is of one attempt a task, the sign-flip test and the bootstrap are of the tasks' differences.

Sources: McNemar 1947, exact form (binomial); Fisher's randomisation test of paired differences; Efron & Tibshirani
1993, ch. 8 (bootstrap over clusters, `evaluate.intervals.rise_of`); Holm 1979.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np

LEVEL = 0.05
"""Of significance."""
EXACT_TASKS = 16
"""Up to so many tasks that differ, all flips of their signs are counted; beyond, `FLIPS` are drawn."""
FLIPS = 20_000


@dataclass(frozen=True)
class McNemar:
    """Tasks on which two single attempts disagree.

    Attributes:
        only_first: Solved by the first alone.
        only_second: Solved by the second alone.
        p_value: Two-sided, exact.
    """

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first: Sequence[int], second: Sequence[int]) -> McNemar:
    """McNemar's exact test.

    Args:
        first: 0 or 1 of each task.
        second: The same tasks, in the same order.
    """
    pairs = list(zip(first, second, strict=True))
    b, c = sum(x > y for x, y in pairs), sum(x < y for x, y in pairs)
    return McNemar(b, c, float(_binomial_two_sided(b, b + c)))


def _binomial_two_sided(count: int, n: int) -> Fraction:
    """P-value of `count` of n fair coins: the smaller tail twice, at most 1."""
    tail = sum(comb(n, k) for k in range(min(count, n - count) + 1))
    return min(Fraction(1), Fraction(2 * tail, 2**n))


def sign_flip(differences: Sequence[float], seed: int = 0) -> float:
    """Two-sided p-value of the mean of paired differences, if either side of each pair could have been the other.

    Differences of 0 say nothing and are left out. Few are counted out exactly; of many a sample of flips is drawn, the
    observed one among them (Phipson & Smyth 2010), so that the value is never 0.

    Args:
        differences: One of each task.
        seed: Of the sample.
    """
    kept = np.array([each for each in differences if each != 0.0])
    if not len(kept):
        return 1.0
    observed = abs(kept.sum()) - 1e-12 * np.abs(kept).sum()  # rounding must not make a tie less extreme
    if len(kept) <= EXACT_TASKS:
        signs = 1 - 2 * ((np.arange(2 ** len(kept))[:, None] >> np.arange(len(kept))) & 1)
        return float((np.abs(signs @ kept) >= observed).mean())
    random, extreme, left = np.random.default_rng(seed), 1, FLIPS
    while left:
        count = min(left, 10_000)
        signs = random.integers(0, 2, (count, len(kept)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ kept) >= observed).sum())
        left -= count
    return extreme / (FLIPS + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several comparisons, adjusted so that the chance of any false claim stays below the level."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, so_far = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = so_far
    return adjusted
