"""Two evaluations over the tasks that both tried: how much they differ, and whether that says anything.

Invariant: paired by task. Tasks of one side alone are counted and left out, and where the same task held something else
on the two sides nothing is compared. "Not distinguishable" is said where the data do not tell.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lego_rl.errors import RunError
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import Interval, rise_of
from lego_rl.evaluate.paired import LEVEL, McNemar, mcnemar, sign_flip
from lego_rl.evaluate.results import scores_by_task
from lego_rl.evaluate.trials import EvaluatedTrial


@dataclass(frozen=True)
class Comparison:
    """Second minus first.

    Attributes:
        tasks: Compared: tried by both, with a trial that counts on each side.
        only_first: Tasks with a trial that counts on the first side alone.
        only_second: Likewise.
        first: Solved of the first side's trials of the compared tasks.
        second: Likewise.
        difference: Mean over tasks of second minus first; ``None`` below two tasks.
        interval: Of it, tasks resampled with all their attempts.
        p_value: Of the sign-flip test over tasks.
        mcnemar: Of one attempt a task, the lowest number that counts on both sides; exact.
        smallest: The smallest mean difference that these tasks would have shown, roughly: half the interval's width.
    """

    tasks: int
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    first: Score
    second: Score
    difference: float | None
    interval: Interval | None
    p_value: float
    mcnemar: McNemar
    smallest: float | None

    @property
    def distinguishable(self) -> bool:
        """Whether interval and test both leave 0 out."""
        if self.interval is None or self.p_value >= LEVEL:
            return False
        return not self.interval.low <= 0.0 <= self.interval.high

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.difference is None:
            return f"not distinguishable: {self.tasks} common tasks say nothing of others"
        if not self.distinguishable:
            return f"not distinguishable: these tasks would show a difference of about {self.smallest:.3f}"
        return f"the second solves {'more' if self.difference > 0 else 'less'}"


def compare(first: Sequence[EvaluatedTrial], second: Sequence[EvaluatedTrial], seed: int = 0) -> Comparison:
    """Compare the trials of two cells.

    Args:
        first: One cell's.
        second: The other's.
        seed: Of the resampling.

    Raises:
        RunError: They have no task in common, or one of them held something else.
    """
    _check_contents(first, second)
    before, after = scores_by_task(first), scores_by_task(second)
    common = [task for task in before if task in after and before[task].trials and after[task].trials]
    if not common:
        raise RunError("the two have no scored task in common", "compare evaluations of the same tasks")
    pairs = [(before[task], after[task]) for task in common]
    rise = rise_of(pairs, seed)
    differences = [(a.rate or 0.0) - (b.rate or 0.0) for b, a in pairs]
    singles = _singles(first, second)
    return Comparison(
        tasks=len(common),
        only_first=tuple(task for task in before if before[task].trials and task not in common),
        only_second=tuple(task for task in after if after[task].trials and task not in common),
        first=_sum(b for b, _ in pairs),
        second=_sum(a for _, a in pairs),
        difference=rise.mean if rise else None,
        interval=rise.interval if rise else None,
        p_value=sign_flip(differences, seed),
        mcnemar=mcnemar([a for a, _ in singles], [b for _, b in singles]),
        smallest=(rise.interval.high - rise.interval.low) / 2 if rise else None,
    )


def _singles(first: Sequence[EvaluatedTrial], second: Sequence[EvaluatedTrial]) -> list[tuple[int, int]]:
    """Of every common task the rewards of the lowest attempt that counts on both sides; none where there is no such."""
    before, after = ({(t.task, t.attempt): t.reward for t in side if t.reward is not None} for side in (first, second))
    lowest: dict[str, int] = {}
    for task, attempt in sorted(before.keys() & after.keys(), reverse=True):
        lowest[task] = attempt
    return [(before[place], after[place]) for place in sorted(lowest.items())]


def _check_contents(first: Sequence[EvaluatedTrial], second: Sequence[EvaluatedTrial]) -> None:
    held = {trial.task: trial.content_digest for trial in first if trial.content_digest is not None}
    for trial in second:
        if trial.content_digest is not None and held.get(trial.task, trial.content_digest) != trial.content_digest:
            raise RunError(
                f"task {trial.task} held something else in the two", "evaluate both on the tasks as they are now"
            )


def _sum(scores: Iterable[Score]) -> Score:
    found = list(scores)
    return Score(sum(each.solved for each in found), sum(each.trials for each in found))
