"""The held-out evaluation of a training run: the same tasks and the same number of trials before and after."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated

from pydantic import AfterValidator, Field, PositiveInt

from lego_rl.errors import ConfigError
from lego_rl.rollout.outcome import Outcome
from lego_rl.settings import Settings
from lego_rl.tasks.task import Task

SMALLEST_TEMPERATURE = 1e-3
"""Below it numbers of 32 bits hold no distribution."""


def usable_temperature(temperature: float) -> float:
    """The temperature, if something can be sampled at it."""
    if not (temperature == 0 or temperature >= SMALLEST_TEMPERATURE):
        raise ValueError(f"input should be 0, or at least {SMALLEST_TEMPERATURE}")
    return temperature


class EvaluateSettings(Settings):
    """Held-out evaluation, the same tasks before and after training."""

    splits: dict[str, PositiveInt] = Field(default_factory=dict)
    """Split → how many of its tasks, spread evenly over the families; empty for no evaluation."""
    trials: int = Field(default=4, ge=1)
    """Trials a task."""
    temperature: Annotated[float, AfterValidator(usable_temperature)] = 1.0
    """Sampling temperature; 0 takes the most probable token."""


@dataclass(frozen=True)
class Score:
    """How many of the trials that count were solved. Without one there is no rate, and no rise of it.

    Attributes:
        solved: Trials with reward 1.
        trials: Trials in the denominator, by the fault table; infrastructure faults are in neither.
    """

    solved: int = 0
    trials: int = 0

    @property
    def rate(self) -> float | None:
        """Solved ÷ trials."""
        return self.solved / self.trials if self.trials else None


def score(outcomes: Iterable[Outcome]) -> Score:
    """Count what is solved among what counts."""
    counted = [reward for outcome in outcomes if (reward := outcome.counted_reward) is not None]
    return Score(solved=sum(counted), trials=len(counted))


def rate_difference(before: Score, after: Score) -> float | None:
    """After minus before; ``None`` where a side has no rate."""
    if before.rate is None or after.rate is None:
        return None
    return after.rate - before.rate


def evaluated_tasks(splits: Mapping[str, Sequence[Task]], settings: EvaluateSettings) -> dict[str, list[Task]]:
    """Of every evaluated split the chosen tasks.

    Args:
        splits: The tasks of the pool, by split; the evaluated ones are among them.
        settings: How many of each.

    Raises:
        ConfigError: More are asked for than a split has.
    """
    for name, count in settings.splits.items():
        if count > len(splits[name]):
            raise ConfigError(
                f"evaluate.splits asks for {count} tasks of split {name!r}, which has {len(splits[name])}",
                f"ask for at most {len(splits[name])}",
            )
    return {name: spread_over_families(splits[name], count) for name, count in settings.splits.items()}


def spread_over_families(tasks: Sequence[Task], count: int) -> list[Task]:
    """Choose `count` tasks, as evenly over the families as their sizes allow.

    Deterministic: families in alphabetical order take turns, each giving its tasks in the order of their ids.

    Args:
        tasks: Held-out tasks.
        count: How many to choose, at most as many as there are.
    """
    families: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        families.setdefault(task.family, []).append(task)
    turns = zip_longest(*(families[family] for family in sorted(families)))
    return [task for turn in turns for task in turn if task is not None][:count]
