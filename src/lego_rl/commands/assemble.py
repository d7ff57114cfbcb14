"""From a recipe to the parts of a run: engine and auditor, gateway, sandboxes, tasks, trainer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from lego_rl.commands.policies import check_policy, policy_directory
from lego_rl.commands.rollouts import RolloutRunner, SpecBuilder
from lego_rl.config.recipe import EngineSection, Recipe
from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import FileAuditLog
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.protocol import Engine
from lego_rl.errors import ConfigError, RunError
from lego_rl.evaluate.heldout import evaluated_tasks
from lego_rl.gateway.connections import connections_each
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import ToolCallParser, tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.harness import registry
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.progress import Progress
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.room import check_room
from lego_rl.sandbox.task_check import check_task
from lego_rl.tasks.pool import load_pool, pool_folder
from lego_rl.train.card import PolicyCard
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.loop import LoopParts, LoopTasks, Rewards, Watcher, as_graded
from lego_rl.train.metrics_log import MetricsLog
from lego_rl.train.persistence import POLICY
from lego_rl.train.prompts import PromptChecker
from lego_rl.train.trainer import BatchShape, Trainer

type EngineWrapper = Callable[[Engine], Engine]
"""Stands between the auditor and the gateway: nothing, or what a control experiment injects."""


def unchanged(engine: Engine) -> Engine:
    """Injects nothing."""
    return engine


class RunWatcher(Watcher, Protocol):
    """A `Watcher` that is also told of every trial."""

    def trial(self, event: Progress) -> None:
        """Something happened to a trial."""
        ...


def load_tasks(recipe: Recipe) -> LoopTasks:
    """The training split, and of every evaluated split the chosen tasks.

    Raises:
        TaskError: The pool or a task is incomplete.
        SandboxError: A task asks for what it cannot have here.
        ConfigError: The pool has no such split, or more tasks are asked for than a split has.
    """
    folder = pool_folder(recipe.tasks.pool, state_of(recipe.sandbox).root / "pools")
    splits = load_pool(folder)
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
    provider = provider_of(recipe.sandbox)
    for task in chain(tasks.train, *tasks.evaluated.values()):
        check_task(task, provider)
    return tasks


def check_machine(recipe: Recipe, tasks: LoopTasks) -> str | None:
    """Whether this machine has room for the trials that run at the same time.

    Returns:
        What to be told of, if anything; see `check_room`.

    Raises:
        SandboxError: It has not.
    """
    every = chain(tasks.train, *tasks.evaluated.values())
    allowed = [recipe.sandbox.limits(task.memory_mb, task.storage_mb) for task in every]
    return check_room(recipe.sandbox, state_of(recipe.sandbox), allowed, recipe.rollout.concurrency)


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
    parts = _RuntimeParts.load(recipe, source)
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
    provider_of(recipe.sandbox).check()
    source = policy_directory(recipe.policy.path)
    check_policy(recipe, source)
    parts = _RuntimeParts.load(recipe, source)
    checkpoints = Checkpoints(directory.checkpoints, recipe.run.keep_checkpoints)
    with (
        # First, for it locks the run: what another process is still at work on is no last checkpoint to go on from.
        Journal(directory.journal) as journal,
        _engine(recipe, source, checkpoints) as engine,
        FileAuditLog(directory.path / "audit") as audit_log,
        MetricsLog(directory.path, engine.weight_version) as log,
    ):
        auditor = AuditedEngine(engine, audit_log)
        yield LoopParts(
            trainer=_trainer(recipe, source, checkpoints),
            engine=engine,
            digest_of=engine.digest_of,
            auditor=auditor,
            rollouts=RolloutRunner(
                runtime=_runtime(recipe, parts, directory, inject(auditor)),
                journal=journal,
                concurrency=recipe.rollout.concurrency,
                retries=recipe.rollout.retries,
                retry_pause_sec=recipe.rollout.retry_pause_sec,
                progress=watcher.trial,
            ),
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


def engine_options(section: EngineSection) -> EngineOptions:
    """The engine's own options."""
    return EngineOptions(
        max_running=section.max_running,
        prefill_tokens=section.prefill_tokens,
        cache_tokens=section.cache_tokens,
        threads=section.threads,
    )


@dataclass(frozen=True)
class _RuntimeParts:
    """What of a runtime can be refused before the engine is loaded."""

    harness: Harness
    bundle: HarnessBundle
    template: ChatTemplate
    tool_parser: ToolCallParser

    @classmethod
    def load(cls, recipe: Recipe, source: Path) -> "_RuntimeParts":
        harness = registry.make(recipe.harness.name, recipe.harness.options)
        bundle = registry.load(recipe.harness.name)
        template = ChatTemplate.load(source)
        check_parser(template, recipe.policy.tool_parser)
        return cls(harness, bundle, template, tool_call_parser(recipe.policy.tool_parser))


def _runtime(recipe: Recipe, parts: _RuntimeParts, directory: RunDirectory, engine: Engine) -> Runtime:
    """What the trials share, around the engine that the gateway is to ask."""
    connections = connections_each(recipe.rollout.concurrency)
    return Runtime(
        gateway=Gateway(
            engine,
            parts.template,
            parts.tool_parser,
            connections=connections,
            capture=recipe.capture,
            spool=directory.scratch,
        ),
        harness=parts.harness,
        bundle=parts.bundle,
        directory=directory,
        sandbox=recipe.sandbox,
    )


def _engine(recipe: Recipe, source: Path, checkpoints: Checkpoints) -> EmbeddedEngine:
    version, folder = checkpoints.latest() or (0, None)
    return EmbeddedEngine.from_directory(
        folder / POLICY if folder else source,
        dtype=recipe.engine.dtype,
        device=recipe.engine.device,
        version=version,
        options=engine_options(recipe.engine),
        seed=recipe.run.seed,
    )


def _trainer(recipe: Recipe, source: Path, checkpoints: Checkpoints) -> Trainer:
    device, shape = recipe.engine.device, batch_shape(recipe)
    latest = checkpoints.latest()
    if latest is None:
        return Trainer.from_directory(source, recipe.train, shape, device)
    trainer = Trainer.resume(latest[1], source, recipe.train, shape, device)
    if trainer.version != latest[0]:
        raise RunError(f"{latest[1]} is the checkpoint of step {trainer.version}", "give the folder its name back")
    return trainer
