"""How sure a solve rate, and the rise of one, is. 95 % throughout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lego_rl.evaluate.heldout import Score, rate_difference

Z = 1.959963984540054
"""Standard normal quantile of 0.975."""

DRAWS = 10_000
"""Resamples of a bootstrap: its percentiles are then good to about 0.003 of a rate."""


@dataclass(frozen=True)
class Interval:
    """A closed interval."""

    low: float
    high: float


def wilson(score: Score) -> Interval:
    """Wilson's score interval of a solve rate (Wilson 1927, without continuity correction).

    It stays within [0, 1] and has sensible width at 0 and n solved. It takes trials for independent, which repeated
    trials of one task are not: read it as the uncertainty for *these* tasks.

    Returns:
        The interval; [0, 1] where there is no trial.
    """
    n = score.trials
    if n == 0:
        return Interval(0.0, 1.0)
    p, z2 = score.solved / n, Z * Z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # Where nothing or everything is solved one bound is the rate itself, which rounding may miss.
    return Interval(min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half)))


@dataclass(frozen=True)
class Rise:
    """After minus before.

    Attributes:
        mean: Mean over tasks of the rise of a task's solve rate.
        interval: Where it lies for tasks like these.
    """

    mean: float
    interval: Interval


def rise_of(pairs: Sequence[tuple[Score, Score]], seed: int = 0) -> Rise | None:
    """The rise of a solve rate, paired by task, with a bootstrap interval that takes tasks as the clusters.

    Tasks are resampled with replacement, each with all its trials before and after (Efron & Tibshirani 1993, ch. 8;
    percentile interval): trials of one task are alike, and a task that is easy before is easy after. A task without a
    trial that counts on both sides has no rise and is left out, so neither an evaluation that was stopped nor a masked
    trial can shift the rise by changing which tasks are compared. Where every task has as many trials that count, the
    mean is the difference of the pooled rates.

    Args:
        pairs: Before and after of each task.
        seed: Of the resampling.

    Returns:
        ``None`` where fewer than two tasks can be compared: one says nothing of others.
    """
    found = [rate_difference(before, after) for before, after in pairs]
    rises = np.array([rise for rise in found if rise is not None])
    tasks = len(rises)
    if tasks < 2:
        return None
    means = np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1 / tasks), size=DRAWS) @ rises / tasks
    low, high = np.percentile(means, [2.5, 97.5])
    return Rise(float(rises.mean()), Interval(float(low), float(high)))
