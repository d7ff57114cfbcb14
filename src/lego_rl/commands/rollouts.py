"""The rollouts of one recipe: which trials there are, and how a batch of them is run."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lego_rl.config.recipe import Recipe
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.trial import Runtime
from lego_rl.tasks.task import Task

_SEED_BYTES = 7


@dataclass(frozen=True)
class SpecBuilder:
    """Builds trial specifications of one recipe. A trial's seed follows from the run's seed and the trial's place."""

    recipe: Recipe

    def __call__(
        self, tasks: Sequence[Task], label: str, attempts: int, temperature: float, first: int = 0
    ) -> list[TrialSpec]:
        """`attempts` trials of every task, group by group, counted from `first`: each number has a seed of its own.

        Raises:
            TaskError: A task cannot be read.
        """
        budget = Budget(**self.recipe.budget.model_dump())
        harness = HarnessChoice(self.recipe.harness.name, self.recipe.harness.options)
        return [
            TrialSpec(
                task=task.path,
                label=label,
                attempt=attempt,
                attempts=first + attempts,
                seed=self._seed(label, task.id, attempt),
                temperature=temperature,
                budget=budget,
                harness=harness,
                family=task.family,
                split=task.split,
                content_digest=task.content_digest,
            )
            for task in tasks
            for attempt in range(first, first + attempts)
        ]

    def _seed(self, label: str, task: str, attempt: int) -> int:
        place = f"{self.recipe.run.seed}/{label}/{task}/{attempt}".encode()
        return int.from_bytes(hashlib.sha256(place).digest()[:_SEED_BYTES])


@dataclass(frozen=True)
class RolloutRunner:
    """`run_trials` with everything but the specifications."""

    runtime: Runtime
    journal: Journal
    concurrency: int
    retries: int
    retry_pause_sec: float
    progress: Callable[[Progress], None]

    async def __call__(
        self,
        specs: Sequence[TrialSpec],
        handovers: Mapping[str, Handover] | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> list[TrialRecord]:
        """Run them, or load what is already scored.

        Args:
            specs: What to run.
            handovers: Trial id → what it begins with beside its task.
            may_begin: See `run_trials`.
        """
        return await run_trials(
            specs,
            replace(self.runtime, handovers=handovers) if handovers else self.runtime,
            self.journal,
            concurrency=self.concurrency,
            retries=self.retries,
            retry_pause_sec=self.retry_pause_sec,
            progress=self.progress,
            may_begin=may_begin,
        )
