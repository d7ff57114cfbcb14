"""Behaviour of one set of trials, or of two side by side, with what was left out.

Invariant: trials that count for nothing by the fault table are in nothing but `Side.masked`. Two sets that have tasks
in common are compared over a fixed cohort: the same attempts at the same tasks on both sides, so that a difference is
not one of the tasks; sets that have none in common are not, and it is said.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.analysis.estimates import Difference, Estimate, differences, estimates, paired_differences
from lego_rl.analysis.figures import TrialFigures
from lego_rl.analysis.measures import MEASURES, Measure
from lego_rl.analysis.read import TrialPlace, read_figures
from lego_rl.analysis.sides import PAIRS, Sides, sides_of
from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE

type _Key = tuple[str, int, int]


@dataclass(frozen=True)
class Side:
    """A set of trials, as far as it is looked at.

    Attributes:
        name: What it is.
        trials: That are counted.
        tasks: That they are of.
        masked: Trials that count for nothing: infrastructure faults.
        outside: Trials that count and have no counterpart on the other side.
    """

    name: str
    trials: int
    tasks: int
    masked: int
    outside: int


@dataclass(frozen=True)
class Line:
    """One measure.

    Attributes:
        measure: Which.
        values: One of each side.
        difference: Second minus first; ``None`` for one side, and where a side has nothing to measure.
    """

    measure: Measure
    values: tuple[Estimate, ...]
    difference: Difference | None = None


@dataclass(frozen=True)
class Behaviour:
    """A table.

    Attributes:
        sides: One, or two.
        cohort: Whether both sides are the same attempts at the same tasks.
        lines: Every measure.
    """

    sides: tuple[Side, ...]
    cohort: bool
    lines: tuple[Line, ...]

    def plain(self) -> dict[str, Any]:
        """As plain data, definitions included."""
        return {
            "sides": [vars(side) for side in self.sides],
            "fixed_cohort": self.cohort,
            "measures": {line.measure.key: _plain(line) for line in self.lines},
        }


def behaviour_of(name: str, trials: Sequence[TrialFigures]) -> Behaviour:
    """The table of one set of trials."""
    counted = _counted(trials)
    side = _side(name, trials, list(counted.values()))
    lines = zip(MEASURES, estimates(_by_task(counted.values())), strict=True)
    return Behaviour((side,), False, tuple(Line(measure, (value,)) for measure, value in lines))


def compare_behaviour(
    names: tuple[str, str], first: Sequence[TrialFigures], second: Sequence[TrialFigures]
) -> Behaviour:
    """The table of two sets of trials."""
    sets = (first, second)
    counted = [_counted(trials) for trials in sets]
    common = counted[0].keys() & counted[1].keys()
    kept = [[found for key, found in side.items() if key in common or not common] for side in counted]
    tasks = [_by_task(each) for each in kept]
    found = (paired_differences if common else differences)(tasks[0], tasks[1])
    values = zip(*(estimates(each) for each in tasks), strict=True)
    return Behaviour(
        sides=tuple(_side(*each) for each in zip(names, sets, kept, strict=True)),
        cohort=bool(common),
        lines=tuple(Line(*each) for each in zip(MEASURES, values, found, strict=True)),
    )


def analyse(run: Path) -> list[Behaviour]:
    """The tables of a run: what it has of before and after and of steps side by side, everything else by itself; none
    where no trial has ended.

    Raises:
        RunError: It is no run, or is damaged.
    """
    sides = sides_of(run)
    pairs = [pair for pair in PAIRS if all(sides.get(name) for name in pair)]
    single = [name for name in sides if sides[name] and not any(name in pair for pair in pairs)]
    figures = _read(sides)
    tables = [compare_behaviour(pair, figures[pair[0]], figures[pair[1]]) for pair in pairs]
    return tables + [behaviour_of(name, figures[name]) for name in single]


def analyse_against(run: Path, other: Path) -> list[Behaviour]:
    """The tables of two runs, set by set: what has the same name in both; or the only set of each.

    Args:
        run: The second side.
        other: The first.

    Raises:
        RunError: One is no run, is damaged, or they have nothing that goes together.
    """
    first, second = sides_of(other), sides_of(run)
    pairs = [(name, name) for name in first if first[name] and second.get(name)]
    if not pairs and len(first) == len(second) == 1:
        pairs = [(next(iter(first)), next(iter(second)))]
    if not pairs:
        raise RunError(
            f"{other} has {', '.join(first)}, {run} has {', '.join(second)}: nothing goes together",
            "name two runs of one kind, or the run directories of two cells",
        )
    before, after = _read({a: first[a] for a, _ in pairs}), _read({b: second[b] for _, b in pairs})
    return [compare_behaviour((f"{other.name}: {a}", f"{run.name}: {b}"), before[a], after[b]) for a, b in pairs]


def _read(sides: Sides) -> dict[str, list[TrialFigures]]:
    """The figures of every set, read in one go."""
    places: list[TrialPlace] = [place for found in sides.values() for place in found]
    figures = iter(read_figures(places))
    return {name: [next(figures) for _ in found] for name, found in sides.items()}


def _counted(trials: Sequence[TrialFigures]) -> dict[_Key, TrialFigures]:
    """The trials that count, by task, attempt, and how many of that attempt there were before."""
    so_often: Counter[tuple[str, int]] = Counter()
    found: dict[_Key, TrialFigures] = {}
    for each in trials:
        if not _counts(each):
            continue
        place = (each.trial.task, each.trial.attempt)
        found[(*place, so_often[place])] = each
        so_often[place] += 1
    return found


def _counts(each: TrialFigures) -> bool:
    return FAULT_TABLE[each.trial.ended].in_denominator


def _by_task(trials: Iterable[TrialFigures]) -> dict[str, list[TrialFigures]]:
    found: dict[str, list[TrialFigures]] = {}
    for each in trials:
        found.setdefault(each.trial.task, []).append(each)
    return found


def _side(name: str, trials: Sequence[TrialFigures], kept: Sequence[TrialFigures]) -> Side:
    masked = sum(not _counts(each) for each in trials)
    return Side(
        name=name,
        trials=len(kept),
        tasks=len({each.trial.task for each in kept}),
        masked=masked,
        outside=len(trials) - masked - len(kept),
    )


def _plain(line: Line) -> dict[str, Any]:
    difference = line.difference
    return {
        "name": line.measure.name,
        "numerator": line.measure.numerator,
        "denominator": line.measure.denominator,
        "unit": line.measure.unit.value,
        "sides": [
            {
                "value": each.value,
                "numerator": each.numerator,
                "denominator": each.denominator,
                "interval": None if each.interval is None else [each.interval.low, each.interval.high],
            }
            for each in line.values
        ],
        "difference": None
        if difference is None
        else {
            "value": difference.value,
            "interval": None if difference.interval is None else [difference.interval.low, difference.interval.high],
        },
    }
