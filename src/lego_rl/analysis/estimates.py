"""Values of the measures with their 95 % intervals, of one set of trials or of two.

Invariant: tasks are the clusters. A bootstrap draws tasks with replacement, each with all its trials (Efron &
Tibshirani 1993, ch. 8; percentile interval), the same draws for every measure, and where both sets are of the same
tasks the same for both. A draw in which a denominator is 0 says nothing and is left out;
nor do draws that are all alike, as where nobody ever looped: there is no interval then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.analysis.figures import TrialFigures
from lego_rl.analysis.measures import MEASURES, Unit
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import DRAWS, Interval, wilson

type ByTask = Mapping[str, Sequence[TrialFigures]]
type Floats = NDArray[np.float64]

_AT_ONCE = 500
"""Draws that are held at once."""


@dataclass(frozen=True)
class Estimate:
    """A measure's value.

    Attributes:
        numerator: Summed over tasks.
        denominator: Likewise; 0 where there is nothing to measure.
        interval: Of the value; ``None`` where there are fewer than two tasks to draw from, or all draws are alike.
    """

    numerator: float
    denominator: float
    interval: Interval | None

    @property
    def value(self) -> float | None:
        """Numerator ÷ denominator."""
        return self.numerator / self.denominator if self.denominator else None


@dataclass(frozen=True)
class Difference:
    """Second minus first.

    Attributes:
        value: Of the values.
        interval: Of the difference; ``None`` as above.
    """

    value: float
    interval: Interval | None

    @property
    def distinguishable(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


def estimates(tasks: ByTask, seed: int = 0) -> list[Estimate]:
    """The value of every measure.

    Args:
        tasks: Task → its trials that count.
        seed: Of the draws.
    """
    sums = _sums(tasks)
    drawn = _percentiles(_ratios(*_draws([sums], seed)[0]))
    found = []
    for at, measure in enumerate(MEASURES):
        numerator, denominator = (float(side[:, at].sum()) for side in sums)
        interval = drawn[at]
        if measure.unit is Unit.TRIALS:
            interval = wilson(Score(round(numerator), round(denominator))) if denominator else None
        found.append(Estimate(numerator, denominator, interval if denominator else None))
    return found


def paired_differences(first: ByTask, second: ByTask, seed: int = 0) -> list[Difference | None]:
    """Second minus first of every measure, for the same tasks; ``None`` where a side has nothing to measure."""
    order = sorted(first)
    sides = [_sums({task: side[task] for task in order}) for side in (first, second)]
    return _differences(sides, _draws(sides, seed))


def differences(first: ByTask, second: ByTask, seed: int = 0) -> list[Difference | None]:
    """Likewise, for different tasks: those of each side are drawn by themselves."""
    sides = [_sums(first), _sums(second)]
    return _differences(sides, [_draws([side], seed + at)[0] for at, side in enumerate(sides)])


type _Side = tuple[Floats, Floats]
"""``[tasks, measures]`` numerators and denominators; or ``[draws, measures]``."""


def _sums(tasks: ByTask) -> _Side:
    cells = [[measure.of_task(trials) for measure in MEASURES] for trials in tasks.values()]
    table = np.array(cells, np.float64).reshape(len(tasks), len(MEASURES), 2)
    return table[:, :, 0], table[:, :, 1]


def _draws(sides: Sequence[_Side], seed: int) -> list[_Side]:
    """Sums over drawn tasks, for each side by the same draws; without any where there are fewer than two tasks."""
    tasks = len(sides[0][0])
    joined = np.concatenate([part for side in sides for part in side], axis=1)
    random, found = np.random.default_rng(seed), []
    for _ in range(DRAWS // _AT_ONCE if tasks > 1 else 0):
        found.append(random.multinomial(tasks, np.full(tasks, 1 / tasks), size=_AT_ONCE) @ joined)
    drawn = np.concatenate(found) if found else np.empty((0, joined.shape[1]))
    parts = np.split(drawn, 2 * len(sides), axis=1)
    return list(zip(parts[::2], parts[1::2], strict=True))


def _ratios(numerators: Floats, denominators: Floats) -> Floats:
    """``[draws, measures]``; not a number where a denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def _percentiles(drawn: Floats) -> list[Interval | None]:
    found: list[Interval | None] = []
    for column in drawn.T:
        values = column[~np.isnan(column)]
        low, high = np.percentile(values, [2.5, 97.5]) if len(values) else (0.0, 0.0)
        found.append(Interval(float(low), float(high)) if low < high else None)
    return found


def _differences(sides: Sequence[_Side], drawn: Sequence[_Side]) -> list[Difference | None]:
    (first, second), (before, after) = sides, drawn
    intervals: list[Interval | None] = [None] * len(MEASURES)
    if len(before[0]) and len(after[0]):
        intervals = _percentiles(_ratios(*after) - _ratios(*before))
    found: list[Difference | None] = []
    for at, interval in enumerate(intervals):
        a, b = (_value(side, at) for side in (first, second))
        found.append(None if a is None or b is None else Difference(b - a, interval))
    return found


def _value(side: _Side, at: int) -> float | None:
    numerator, denominator = (float(part[:, at].sum()) for part in side)
    return numerator / denominator if denominator else None
