"""What a cell of the table came to: one model in one harness over the tasks of an evaluation.

Invariant: every figure is of the trials given and nothing else, and says what it leaves out: trials without a score are
in the coverage and in no rate, and tasks whose own solution fails here are told apart, never dropped in silence.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import Interval, wilson
from lego_rl.evaluate.passk import OverTasks, mean_pass_at_k, mean_pass_hat_k
from lego_rl.evaluate.trials import EvaluatedTrial


@dataclass(frozen=True)
class Cell:
    """The trials of one model in one harness.

    Attributes:
        model: Its name in the evaluation.
        harness: Likewise.
        trials: Those that have ended.
        launched: Trials that the evaluation asks for.
    """

    model: str
    harness: str
    trials: tuple[EvaluatedTrial, ...]
    launched: int

    @property
    def name(self) -> str:
        """Model and harness."""
        return f"{self.model}--{self.harness}"

    def without(self, tasks: Collection[str], attempts: int) -> "Cell":
        """The same without some tasks, each of which was to be tried so often."""
        kept = tuple(trial for trial in self.trials if trial.task not in tasks)
        return Cell(self.model, self.harness, kept, self.launched - attempts * len(tasks))


@dataclass(frozen=True)
class CellResult:
    """The figures of a cell.

    Attributes:
        score: Solved of scored trials; pass@1 is its rate, for every attempt is one.
        interval: Wilson's, of pass@1.
        tasks: Tasks with a scored trial.
        pass_at: k → pass@k.
        pass_hat: k → pass^k.
        launched: Trials that were asked for.
        scored: Of these, trials with a reward.
        faults: Why others have none: row of the fault table → trials; ``not_run`` for those that have not ended.
        groups: Repository or family → its score.
        sampled: Mean tokens sampled of a scored trial.
        turns: Mean model calls of one.
        seconds: Mean wall-clock of one.
    """

    score: Score
    interval: Interval
    tasks: int
    pass_at: dict[int, OverTasks]
    pass_hat: dict[int, OverTasks]
    launched: int
    scored: int
    faults: dict[str, int]
    groups: dict[str, Score]
    sampled: float | None
    turns: float | None
    seconds: float | None

    @property
    def coverage(self) -> float:
        """Scored ÷ launched; 1.0 where nothing was launched."""
        return self.scored / self.launched if self.launched else 1.0


NOT_RUN = "not_run"


def scores_by_task(trials: Iterable[EvaluatedTrial]) -> dict[str, Score]:
    """The score of every task that has a trial, whether or not one of them counts."""
    rewards: dict[str, list[int]] = defaultdict(list)
    for trial in trials:
        rewards[trial.task] += [] if trial.reward is None else [trial.reward]
    return {task: Score(sum(found), len(found)) for task, found in sorted(rewards.items())}


def result_of(cell: Cell, ks: Sequence[int]) -> CellResult:
    """The figures of a cell.

    Args:
        cell: Its trials.
        ks: Which pass@k and pass^k are asked for.
    """
    scored = [trial for trial in cell.trials if trial.reward is not None]
    by_task = scores_by_task(cell.trials)
    scores = list(by_task.values())
    score = Score(sum(each.solved for each in scores), sum(each.trials for each in scores))
    faults = Counter(trial.ended.value for trial in cell.trials if trial.reward is None)
    if (left := cell.launched - len(cell.trials)) > 0:
        faults[NOT_RUN] = left
    return CellResult(
        score=score,
        interval=wilson(score),
        tasks=sum(each.trials > 0 for each in scores),
        pass_at={k: mean_pass_at_k(scores, k) for k in ks},
        pass_hat={k: mean_pass_hat_k(scores, k) for k in ks},
        launched=cell.launched,
        scored=len(scored),
        faults=dict(sorted(faults.items())),
        groups=_groups(cell.trials),
        sampled=_mean(trial.sampled for trial in scored),
        turns=_mean(trial.turns for trial in scored),
        seconds=_mean(trial.seconds for trial in scored),
    )


def _groups(trials: Sequence[EvaluatedTrial]) -> dict[str, Score]:
    by_group: dict[str, list[EvaluatedTrial]] = defaultdict(list)
    for trial in trials:
        by_group[trial.group].append(trial)
    found = {name: scores_by_task(own).values() for name, own in sorted(by_group.items())}
    return {name: Score(sum(s.solved for s in own), sum(s.trials for s in own)) for name, own in found.items()}


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation came to.

    Attributes:
        name: Of its folder.
        protocol: How it was made, as plain data.
        attempts: Trials a task.
        cells: Its cells.
        excluded: Tasks whose own solution fails here → why; results are given with and without them.
        unvalidated: Tasks of which nobody has seen here whether their own solution passes.
        regraded: What grading a sample again found, by cell; empty where nobody has.
    """

    name: str
    protocol: Mapping[str, object]
    attempts: int
    cells: tuple[Cell, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
    unvalidated: int = 0
    regraded: Mapping[str, "RegradeDelta"] = field(default_factory=dict)

    @property
    def ks(self) -> tuple[int, ...]:
        """1, powers of two below the attempts, and the attempts."""
        powers = [2**n for n in range(self.attempts.bit_length()) if 2**n < self.attempts]
        return (*powers, self.attempts)


@dataclass(frozen=True)
class RegradeDelta:
    """Verdicts of a sample of trials, made again.

    Attributes:
        trials: Of the sample.
        agree: With the verdict that they have.
        false_zeros: Trials with 0 that earn 1 now.
        false_ones: Trials with 1 that earn 0 now.
        undecided: Trials that could not be graded again.
    """

    trials: int
    agree: int
    false_zeros: tuple[str, ...] = ()
    false_ones: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def rate_before(self) -> int:
        """Solved of the sample less those that could not be graded, as they stand: relative to `rate_after`."""
        return len(self.false_ones) - len(self.false_zeros)
