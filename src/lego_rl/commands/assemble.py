"""From a recipe to the parts of a run: engine and auditor, gateway, sandboxes, tasks, trainer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from lego_rl.commands.recipe_check import Checked
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.commands.sampling import EngineWrapper, sampling_parts, unchanged
from lego_rl.commands.trial_watcher import TrialWatcher
from lego_rl.config.recipe import Recipe, token_engine
from lego_rl.errors import RunError
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.loop import LoopParts, Rewards, Watcher, as_graded
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.prompts import PromptChecker
from lego_rl.train.trainer import BatchShape, Trainer


class RunWatcher(Watcher, TrialWatcher, Protocol):
    """A `Watcher` that is also told of every trial."""


@contextmanager
def loop_parts(
    recipe: Recipe,
    checked: Checked,
    directory: RunDirectory,
    watcher: RunWatcher,
    *,
    rewards: Rewards = as_graded,
    inject: EngineWrapper = unchanged,
) -> Iterator[LoopParts]:
    """Put a run together, from its last checkpoint where there is one.

    Args:
        recipe: The resolved recipe.
        checked: What it names, which was seen to be there.
        directory: The run's folder.
        watcher: Is told how far the run is.
        rewards: What the trainer is told that a trial earned.
        inject: Stands between the auditor and the gateway.

    Raises:
        LegoError: Something that the recipe names is missing or does not fit.
    """
    source = checked.policy.source
    checkpoints = Checkpoints(directory.checkpoints, recipe.run.keep_checkpoints)
    with (
        sampling_parts(recipe, checked.policy, directory, watcher, inject=inject) as sampling,
        MetricsLog(directory.path, sampling.engine.weight_version) as log,
    ):
        yield LoopParts(
            trainer=_trainer(recipe, source, checkpoints),
            engine=sampling.engine,
            digest_of=sampling.engine.digest_of,
            auditor=sampling.auditor,
            rollouts=sampling.rollouts,
            specs=SpecBuilder(recipe),
            prompts=PromptChecker(source),
            card=PolicyCard("gspo", recipe.policy.path, recipe.harness.name, recipe.capture.reasoning),
            checkpoints=checkpoints,
            log=log,
            watcher=watcher,
            rewards=rewards,
        )


def batch_shape(recipe: Recipe) -> BatchShape:
    """What a step rolls out."""
    rollout = recipe.rollout
    return BatchShape(rollout.tasks_per_step, rollout.group_size, rollout.temperature)


def _trainer(recipe: Recipe, source: Path, checkpoints: Checkpoints) -> Trainer:
    device, shape = token_engine(recipe).device, batch_shape(recipe)
    latest = checkpoints.latest()
    if latest is None:
        return Trainer.from_directory(source, recipe.train, shape, device)
    trainer = Trainer.resume(latest[1], source, recipe.train, shape, device)
    if trainer.version != latest[0]:
        raise RunError(f"{latest[1]} is the checkpoint of step {trainer.version}", "give the folder its name back")
    return trainer
