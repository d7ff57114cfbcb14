"""The synchronous loop: evaluate, then roll out, check, update and push the weights, step by step, then evaluate again.

Invariant: a step is finished when its checkpoint is on the disk. What follows is a function of the last checkpoint, the
recipe and the trials in the journal, so a run that is killed anywhere resumes with no task lost and none trained twice.
Weight version v is the policy after v steps; step s samples from version s.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from lego_rl.engine.audit import Reconciliation, TrainedTokens
from lego_rl.errors import FidelityError
from lego_rl.evaluate.heldout import EvaluateSettings, Score, score
from lego_rl.rollout.labels import AFTER, BEFORE, train_label
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.tool_parsing import refuse_unreadable
from lego_rl.tasks.task import Task
from lego_rl.train.batch import TrainingTrial
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.fidelity import DigestCovers, EngineClaim, PromptCheck
from lego_rl.train.loop_tasks import LoopTasks
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.rollout_figures import rollout_figures
from lego_rl.train.schedule import tasks_of_step
from lego_rl.train.step_metrics import StepMetrics
from lego_rl.train.trainer import BatchShape, Trainer

_ALTERED = "a token was altered between the engine and the trainer"
_SETTLED = (
    "where a checkpoint or the audit file was removed by hand, the step cannot be done again: start a new run with the"
    " last checkpoint's policy/ as policy.path"
)


class ServedEngine(Protocol):
    """The engine as the loop sees it: weights go in with a version, and it can say which it holds."""

    @property
    def weight_version(self) -> int:
        """Version that a call started now would sample from."""
        ...

    async def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from now on."""
        ...

    @property
    def digest_covers(self) -> DigestCovers:
        """Which tensors `weights_digest` is of; see `EngineClaim`."""
        ...

    def weights_digest(self) -> str:
        """Digest of the tensors in use, or of those taken over last."""
        ...


class DigestOf(Protocol):
    """What `ServedEngine.weights_digest` is while exactly these weights are in use."""

    def __call__(self, state: Mapping[str, Tensor]) -> str:
        """Digest of a state dict, in the engine's dtype."""
        ...


class Auditor(Protocol):
    """Keeps what every engine call returned, outside the gateway."""

    def reconcile(self, trained: TrainedTokens) -> Reconciliation:
        """Compare a training batch with it."""
        ...

    def settle_all(self) -> None:
        """Forget every call so far: nobody will train on one any more."""
        ...


class Rollouts(Protocol):
    """Runs trials; records come back in the order of the specifications."""

    async def __call__(self, specs: Sequence[TrialSpec]) -> list[TrialRecord]:
        """Run them, or load what is already scored."""
        ...


class Specs(Protocol):
    """Builds the specifications of one label; the recipe's harness, budget and seed are already in it."""

    def __call__(self, tasks: Sequence[Task], label: str, attempts: int, temperature: float) -> list[TrialSpec]:
        """`attempts` trials of every task."""
        ...


class Rewards(Protocol):
    """What the trainer is told that a trial earned: `as_graded`, or a control experiment's."""

    def __call__(self, records: Sequence[TrialRecord], step: int) -> list[TrainingTrial]:
        """One training trial a record, in order."""
        ...


class Prompts(Protocol):
    """Renders prompts of a step's trials again, from their messages."""

    def __call__(self, records: Sequence[TrialRecord]) -> tuple[PromptCheck, ...]:
        """Some of them are enough: a template is wrong for all or for none."""
        ...


class Watcher(Protocol):
    """Is told how far the run is."""

    def evaluated(self, label: str, split: str, result: Score) -> None:
        """One split is evaluated; the label is `BEFORE` or `AFTER`."""
        ...

    def training(self, step: int) -> None:
        """The trials of a step are done, its update is computed."""
        ...

    def stepped(self, step: int, figures: Mapping[str, float | int | str | None]) -> None:
        """A step is finished."""
        ...


def as_graded(records: Sequence[TrialRecord], step: int) -> list[TrainingTrial]:
    """Rewards as the tasks' own tests gave them, and what the fault table lets train."""
    del step
    return [
        TrainingTrial(
            trial_id=record.spec.id,
            group_id=record.spec.group,
            reward=record.outcome.group_reward,
            segments=trajectory.segments if trajectory is not None and record.outcome.is_trained else (),
        )
        for record, trajectory in ((record, record.sampled()) for record in records)
    ]


@dataclass(frozen=True)
class LoopParts:
    """What the loop puts together; each is replaceable, and a test or a control experiment does so."""

    trainer: Trainer
    engine: ServedEngine
    digest_of: DigestOf
    auditor: Auditor
    rollouts: Rollouts
    specs: Specs
    prompts: Prompts
    card: PolicyCard
    checkpoints: Checkpoints
    log: MetricsLog
    watcher: Watcher
    rewards: Rewards = as_graded


class Loop:
    """One training run.

    Args:
        parts: Who does the work.
        tasks: On which tasks.
        shape: Prompts and trials of a step.
        steps: How many steps the run has.
        evaluation: How the evaluated tasks are tried.
        seed: Of the order of the tasks.
    """

    def __init__(
        self,
        parts: LoopParts,
        tasks: LoopTasks,
        shape: BatchShape,
        steps: int,
        evaluation: EvaluateSettings,
        seed: int,
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._shape = shape
        self._steps = steps
        self._evaluation = evaluation
        self._seed = seed
        self._previous_digest: str | None = None

    async def run(self) -> None:
        """Do what is left of the run.

        Raises:
            FidelityError: Gate or auditor stopped the run; the last finished step is kept.
            RunError: More trials ended unattributed than a step may have.
        """
        # A resumed run has evaluated before: trials that faulted then must not be run again under later weights.
        if self._parts.trainer.version == 0:
            await self._evaluate(BEFORE)
        for step in range(self._parts.trainer.version, self._steps):
            await self.step(step)
        await self._evaluate(AFTER)
        self._parts.auditor.settle_all()

    async def step(self, step: int) -> StepMetrics:
        """Roll out, check, update, save, push."""
        parts, started = self._parts, time.perf_counter()
        tasks = tasks_of_step(self._tasks.train, step, self._shape.prompts, self._seed)
        label = train_label(step)
        records = await parts.rollouts(
            parts.specs(tasks, label, self._shape.trials_per_prompt, self._shape.temperature)
        )
        if step == 0:
            refuse_unreadable(records)
        rolled_out = time.perf_counter()
        parts.watcher.training(step)
        claim = self._claim(records)
        self._previous_digest = claim.expected_digest
        metrics = await asyncio.to_thread(parts.trainer.step, parts.rewards(records, step), claim)
        audited = self._audit()
        figures = {
            **rollout_figures(records),
            **metrics.flat(),
            "audit/tokens": audited.tokens,
            "seconds/rollout": rolled_out - started,
            "seconds/training": metrics.seconds,
            "seconds/step": time.perf_counter() - started,
        }
        # The row first: rows of unfinished steps are dropped on resume, a missing one could not be made up.
        parts.log.write(step, figures)
        parts.checkpoints.save(step + 1, partial(parts.trainer.save, card=parts.card))
        # The auditor last, and nowhere else before the end: a run that is stopped before the checkpoint trains on these
        # calls again, and has them from its trials' records.
        parts.auditor.settle_all()
        await parts.engine.load_weights(parts.trainer.state_dict(), parts.trainer.version)
        parts.watcher.stepped(step, figures)
        return metrics

    async def _evaluate(self, label: str) -> None:
        tasks = [task for split in self._tasks.evaluated.values() for task in split]
        if not tasks:
            return
        records = await self._parts.rollouts(
            self._parts.specs(tasks, label, self._evaluation.trials, self._evaluation.temperature)
        )
        for split in self._tasks.evaluated:
            outcomes = [record.outcome for record in records if record.spec.split == split]
            self._parts.watcher.evaluated(label, split, score(outcomes))

    def _claim(self, records: Sequence[TrialRecord]) -> EngineClaim:
        parts = self._parts
        return EngineClaim(
            weight_version=parts.engine.weight_version,
            digest=parts.engine.weights_digest(),
            digest_covers=parts.engine.digest_covers,
            expected_digest=parts.digest_of(parts.trainer.state_dict()),
            previous_digest=self._previous_digest,
            prompts=parts.prompts(records),
        )

    def _audit(self) -> Reconciliation:
        found = self._parts.auditor.reconcile(self._parts.trainer.trained_tokens())
        if not found.exact:
            raise FidelityError("audit", found.reason, _SETTLED if found.unknown_calls else _ALTERED)
        return found
