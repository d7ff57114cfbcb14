"""What is measured of a set of trials: each measure with its definition, its numerator and its denominator.

Invariant: a measure is a ratio of two sums over tasks, so that one bootstrap over tasks serves all of them, and is of
trials that count alone: those that an infrastructure fault took are in no denominator. Whoever computes has left them
out already.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lego_rl.analysis.figures import LOOP, RECOVERY, TrialFigures
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.passk import pass_at_k, pass_hat_k

type Sums = tuple[float, float]
"""Numerator and denominator of one task."""

K = 8
"""Attempts of pass@k and pass^k."""


class Unit(StrEnum):
    """What a value is, which says how it is shown and what its interval is."""

    TRIALS = "share of trials"
    """Numerator and denominator are trials: Wilson's interval."""
    SHARE = "share"
    """A share of something that trials have many of: an interval of a bootstrap over tasks."""
    MEAN = "mean"
    """A mean of a count: likewise."""


@dataclass(frozen=True)
class Measure:
    """One measure.

    Attributes:
        key: In JSON.
        name: In tables.
        numerator: What is counted, in words.
        denominator: Out of what.
        unit: Of its value.
        of_task: The sums of one task's trials.
    """

    key: str
    name: str
    numerator: str
    denominator: str
    unit: Unit
    of_task: Callable[[Sequence[TrialFigures]], Sums]


def _sum(
    numerator: Callable[[TrialFigures], float], denominator: Callable[[TrialFigures], float]
) -> Callable[[Sequence[TrialFigures]], Sums]:
    return lambda trials: (
        float(sum(numerator(trial) for trial in trials)),
        float(sum(denominator(trial) for trial in trials)),
    )


def _attempts(estimate: Callable[[Score, int], float]) -> Callable[[Sequence[TrialFigures]], Sums]:
    """An estimate from k attempts; a task with fewer that count is no part of it."""

    def of_task(trials: Sequence[TrialFigures]) -> Sums:
        score = Score(sum(map(_reward, trials)), sum(map(_graded, trials)))
        return (estimate(score, K), 1.0) if score.trials >= K else (0.0, 0.0)

    return of_task


def _reward(trial: TrialFigures) -> int:
    return trial.trial.reward or 0


def _graded(trial: TrialFigures) -> bool:
    return trial.trial.reward is not None


def _edits(trial: TrialFigures) -> bool:
    return trial.edits > 0


def _unasked(trial: TrialFigures) -> bool:
    return not trial.asked_for_tests


MEASURES: tuple[Measure, ...] = (
    Measure("solved", "solved", "trials with reward 1", "trials that are graded", Unit.TRIALS, _sum(_reward, _graded)),
    Measure("turns", "turns", "answered model calls", "trials", Unit.MEAN, _sum(lambda t: t.trial.turns, lambda t: 1)),
    Measure(
        "rereads",
        "re-reads a file after editing it",
        "trials in which a file is read by a later call than one that edited it",
        "trials that edit a file",
        Unit.TRIALS,
        _sum(lambda t: t.reread and _edits(t), _edits),
    ),
    Measure(
        "inspected",
        "files read before the first edit",
        "different files that are read before the first edit",
        "trials that edit a file",
        Unit.MEAN,
        _sum(lambda t: t.inspected if _edits(t) else 0, _edits),
    ),
    Measure(
        "own_tests",
        "runs tests unasked",
        "trials with a command that runs tests",
        "trials whose request does not ask to run tests",
        Unit.TRIALS,
        _sum(lambda t: _unasked(t) and t.test_runs > 0, _unasked),
    ),
    Measure(
        "malformed",
        "malformed calls",
        "tool calls that cannot be parsed, name no tool that is offered, or lack an argument",
        "tool calls but for those that end the trial",
        Unit.SHARE,
        _sum(lambda t: t.malformed, lambda t: t.calls),
    ),
    Measure(
        "recovered",
        "recovers from a failure",
        f"failed calls after which one of the next {RECOVERY} calls succeeds and is another call",
        "calls whose result says that they failed",
        Unit.SHARE,
        _sum(lambda t: t.recovered, lambda t: t.failed),
    ),
    Measure(
        "loops",
        "loops",
        f"trials that make the same call {LOOP} times or more in a row",
        "trials",
        Unit.TRIALS,
        _sum(lambda t: t.longest_repeat >= LOOP, lambda t: 1),
    ),
    Measure(
        "reasoning",
        "reasoning share",
        "characters of reasoning, in thoughts and in tools that take thoughts",
        "characters that the policy writes: reasoning, text and arguments of tools",
        Unit.SHARE,
        _sum(lambda t: t.reasoning_chars, lambda t: t.written_chars),
    ),
    Measure(
        f"pass_at_{K}",
        f"pass@{K}",
        f"chance that one of {K} attempts solves a task, estimated without bias",
        f"tasks with {K} attempts that count",
        Unit.SHARE,
        _attempts(pass_at_k),
    ),
    Measure(
        f"pass_hat_{K}",
        f"pass^{K}",
        f"chance that all of {K} attempts solve a task, estimated without bias",
        f"tasks with {K} attempts that count",
        Unit.SHARE,
        _attempts(pass_hat_k),
    ),
)
"""All of them, in the order of the tables."""
