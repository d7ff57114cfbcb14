"""The held-out evaluation of a training run: the same tasks and the same number of trials before and after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field, PositiveInt

from lego_rl.rollout.outcome import Reward
from lego_rl.settings import Settings
from lego_rl.tasks.task import Task


class EvaluateSettings(Settings):
    """Held-out evaluation, the same tasks before and after training."""

    splits: dict[str, PositiveInt] = Field(default_factory=dict)
    """Split → how many of its tasks, spread evenly over the families; empty for no evaluation."""
    trials: int = Field(default=4, ge=1)
    """Trials a task."""
    temperature: float = Field(default=1.0, ge=0)
    """Sampling temperature."""


@dataclass(frozen=True)
class Score:
    """How many of the trials that count were solved.

    Attributes:
        solved: Trials with reward 1.
        trials: Trials with a reward; infrastructure faults are in neither.
    """

    solved: int = 0
    trials: int = 0

    @property
    def rate(self) -> float:
        """Solved ÷ trials; 0.0 where no trial counts."""
        return self.solved / self.trials if self.trials else 0.0


def score(rewards: Iterable[Reward | None]) -> Score:
    """Count what is solved among what counts."""
    counted = [reward for reward in rewards if reward is not None]
    return Score(solved=sum(counted), trials=len(counted))


def spread_over_families(tasks: Sequence[Task], count: int) -> list[Task]:
    """Choose `count` tasks, as evenly over the families as their sizes allow.

    Deterministic: families in alphabetical order take turns, each giving its tasks in the order of their ids.

    Args:
        tasks: Held-out tasks.
        count: How many to choose; all of them where there are fewer.
    """
    queues: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        queues.setdefault(task.family, []).append(task)
    chosen: list[Task] = []
    while len(chosen) < count and any(queues.values()):
        for family in sorted(queues):
            if queues[family] and len(chosen) < count:
                chosen.append(queues[family].pop(0))
    return chosen
