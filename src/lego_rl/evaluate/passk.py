"""pass@k and pass^k of tasks that were tried n times, estimated without bias.

pass@k, that one of k attempts solves the task, is 1 - C(n-c, k) / C(n, k) for c solved of n
(Chen et al. 2021, arXiv:2107.03374, eq. 1); pass^k, that all k do, is C(c, k) / C(n, k) (τ-bench, arXiv:2406.12045).
Both are means over tasks. Counts are exact integers, so nothing is lost where C(n, k) is large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import Score


@dataclass(frozen=True)
class OverTasks:
    """A mean over tasks.

    Attributes:
        value: The mean; ``None`` where no task has enough attempts.
        tasks: How many it is over.
        left_out: Tasks with fewer than k attempts that count: faults took some.
    """

    value: float | None
    tasks: int
    left_out: int


def pass_at_k(score: Score, k: int) -> float:
    """That one of k attempts solves a task.

    Args:
        score: Of all its attempts that count.
        k: At least 1, at most the attempts.

    Raises:
        ConfigError: k is outside.
    """
    _check(score, k)
    return 1.0 - comb(score.trials - score.solved, k) / comb(score.trials, k)


def pass_hat_k(score: Score, k: int) -> float:
    """That all of k attempts solve a task; see `pass_at_k`."""
    _check(score, k)
    return comb(score.solved, k) / comb(score.trials, k)


def mean_pass_at_k(scores: Sequence[Score], k: int) -> OverTasks:
    """pass@k over tasks; those with fewer than k attempts that count are left out, and counted."""
    return _over(scores, k, [pass_at_k(score, k) for score in scores if score.trials >= k])


def mean_pass_hat_k(scores: Sequence[Score], k: int) -> OverTasks:
    """pass^k over tasks; those with fewer than k attempts that count are left out, and counted."""
    return _over(scores, k, [pass_hat_k(score, k) for score in scores if score.trials >= k])


def _over(scores: Sequence[Score], k: int, values: Sequence[float]) -> OverTasks:
    if k < 1:
        raise ConfigError(f"k = {k} attempts are none", "ask for at least 1")
    return OverTasks(fmean(values) if values else None, len(values), len(scores) - len(values))


def _check(score: Score, k: int) -> None:
    if not 1 <= k <= score.trials:
        raise ConfigError(
            f"k = {k} is not estimated from {score.trials} attempts", f"ask for 1 to {score.trials}, or try more often"
        )
