"""From a recipe to the parts of a run: engine and auditor, gateway, sandboxes, tasks, trainer."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol

from lego_rl.commands.policies import check_policy, policy_directory
from lego_rl.commands.rollouts import SpecBuilder
from lego_rl.commands.sampling import (
    EngineWrapper,
    RuntimeParts,
    TrialWatcher,
    check_tasks,
    room_for,
    sampling_parts,
    unchanged,
)
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError
from lego_rl.evaluate.heldout import evaluated_tasks
from lego_rl.harness.base import HarnessBundle
from lego_rl.rollout.store import RunDirectory
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.tasks.pool import load_pool, pool_place
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.loop import LoopParts, LoopTasks, Rewards, Watcher, as_graded
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.prompts import PromptChecker
from lego_rl.train.trainer import BatchShape, Trainer


class RunWatcher(Watcher, TrialWatcher, Protocol):
    """A `Watcher` that is also told of every trial."""


def load_tasks(recipe: Recipe) -> LoopTasks:
    """The training split, and of every evaluated split the chosen tasks.

    Raises:
        TaskError: The pool or a task is incomplete.
        SandboxError: Sandboxes have nowhere to keep their files, or a task asks for what it cannot have here.
        ConfigError: The pool has no such split, or more tasks are asked for than a split has.
    """
    state = state_of(recipe.sandbox)
    check_state_folder(state.root)
    splits = load_pool(pool_place(recipe.tasks.pool, state.root / "pools"))
    missing = [name for name in (recipe.tasks.train, *recipe.evaluate.splits) if name not in splits]
    if missing:
        raise ConfigError(f"the pool has no split {missing[0]!r}", f"it has {', '.join(sorted(splits))}")
    train, per_step = splits[recipe.tasks.train], recipe.rollout.tasks_per_step
    if per_step > len(train):
        raise ConfigError(
            f"a step of {per_step} tasks does not fit the {len(train)} of split {recipe.tasks.train!r}",
            "lower rollout.tasks_per_step",
        )
    tasks = LoopTasks(train=train, evaluated=evaluated_tasks(splits, recipe.evaluate))
    check_tasks(chain(tasks.train, *tasks.evaluated.values()), provider_of(recipe.sandbox))
    return tasks


def check_machine(recipe: Recipe, tasks: LoopTasks) -> str | None:
    """Whether this machine has room for the trials that run at the same time.

    Returns:
        What to be told of, if anything; see `check_room`.

    Raises:
        SandboxError: It has not.
    """
    return room_for(recipe, chain(tasks.train, *tasks.evaluated.values()))


def check_recipe(recipe: Recipe) -> tuple[HarnessBundle, str | None]:
    """Whether everything that a recipe names is there and fits, without loading a weight.

    Returns:
        The bundle of its harness, and what to be told of this machine, if anything.

    Raises:
        LegoError: Something is missing or does not fit.
    """
    provider_of(recipe.sandbox).check()
    source = policy_directory(recipe.policy.path)
    check_policy(recipe, source)
    parts = RuntimeParts.load(recipe, source)
    return parts.bundle, check_machine(recipe, load_tasks(recipe))


@contextmanager
def loop_parts(
    recipe: Recipe,
    directory: RunDirectory,
    watcher: RunWatcher,
    *,
    rewards: Rewards = as_graded,
    inject: EngineWrapper = unchanged,
) -> Iterator[LoopParts]:
    """Put a run together, from its last checkpoint where there is one.

    Args:
        recipe: The resolved recipe.
        directory: The run's folder.
        watcher: Is told how far the run is.
        rewards: What the trainer is told that a trial earned.
        inject: Stands between the auditor and the gateway.

    Raises:
        LegoError: Something that the recipe names is missing or does not fit.
    """
    checkpoints = Checkpoints(directory.checkpoints, recipe.run.keep_checkpoints)
    with (
        sampling_parts(recipe, directory, watcher, inject=inject) as sampling,
        MetricsLog(directory.path, sampling.engine.weight_version) as log,
    ):
        yield LoopParts(
            trainer=_trainer(recipe, sampling.source, checkpoints),
            engine=sampling.engine,
            digest_of=sampling.engine.digest_of,
            auditor=sampling.auditor,
            rollouts=sampling.rollouts,
            specs=SpecBuilder(recipe),
            prompts=PromptChecker(sampling.source),
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
    device, shape = recipe.engine.device, batch_shape(recipe)
    latest = checkpoints.latest()
    if latest is None:
        return Trainer.from_directory(source, recipe.train, shape, device)
    trainer = Trainer.resume(latest[1], source, recipe.train, shape, device)
    if trainer.version != latest[0]:
        raise RunError(f"{latest[1]} is the checkpoint of step {trainer.version}", "give the folder its name back")
    return trainer
