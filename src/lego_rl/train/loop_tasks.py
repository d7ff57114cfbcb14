"""The tasks of a run, apart from the loop, so that they can be checked before torch is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lego_rl.tasks.task import Task


@dataclass(frozen=True)
class LoopTasks:
    """Which tasks are trained on, in a fixed order, and which are evaluated, by split."""

    train: Sequence[Task]
    evaluated: Mapping[str, Sequence[Task]]

    @property
    def every(self) -> list[Task]:
        """All of them, those to train on first."""
        return [*self.train, *(task for tasks in self.evaluated.values() for task in tasks)]
