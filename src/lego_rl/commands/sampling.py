"""From a recipe to what its trials are run with: engine and auditor, gateway, harness, sandboxes, journal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lego_rl.commands.policies import check_policy, policy_directory
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.config.recipe import EngineSection, Recipe
from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import FileAuditLog
from lego_rl.engine.embedded.engine import EmbeddedEngine
from lego_rl.engine.embedded.stepper import EngineOptions
from lego_rl.engine.protocol import Engine
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
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.room import check_room
from lego_rl.sandbox.task_check import check_task
from lego_rl.tasks.task import Task
from lego_rl.train.checkpoints import Checkpoints
from lego_rl.train.persistence import POLICY

type EngineWrapper = Callable[[Engine], Engine]
"""Stands between the auditor and the gateway: nothing, or what a control experiment injects."""


def unchanged(engine: Engine) -> Engine:
    """Injects nothing."""
    return engine


class TrialWatcher(Protocol):
    """Is told of every trial."""

    def trial(self, event: Progress) -> None:
        """Something happened to a trial."""
        ...


@dataclass(frozen=True)
class SamplingParts:
    """What trials are run with.

    Attributes:
        source: The folder of the policy that the run starts from.
        bundle: The harness that it works in.
        engine: The policy as it is now.
        auditor: Keeps what every call of it returned.
        rollouts: Runs batches of trials.
    """

    source: Path
    bundle: HarnessBundle
    engine: EmbeddedEngine
    auditor: AuditedEngine
    rollouts: RolloutRunner


@contextmanager
def sampling_parts(
    recipe: Recipe, directory: RunDirectory, watcher: TrialWatcher, *, inject: EngineWrapper = unchanged
) -> Iterator[SamplingParts]:
    """Put together what trials are run with, and lock the run; the policy is that of the last checkpoint, if any.

    Args:
        recipe: The resolved recipe.
        directory: The run's folder.
        watcher: Is told of every trial.
        inject: Stands between the auditor and the gateway.

    Raises:
        LegoError: Something that the recipe names is missing or does not fit.
    """
    provider_of(recipe.sandbox).check()
    source = policy_directory(recipe.policy.path)
    check_policy(recipe, source)
    parts = RuntimeParts.load(recipe, source)
    with (
        # First, for it locks the run: what another process is still at work on is no last checkpoint to go on from.
        Journal(directory.journal) as journal,
        _engine(recipe, source, Checkpoints(directory.checkpoints, recipe.run.keep_checkpoints)) as engine,
        FileAuditLog(directory.path / "audit") as audit_log,
    ):
        auditor = AuditedEngine(engine, audit_log)
        rollouts = RolloutRunner(
            runtime=_runtime(recipe, parts, directory, inject(auditor)),
            journal=journal,
            concurrency=recipe.rollout.concurrency,
            retries=recipe.rollout.retries,
            retry_pause_sec=recipe.rollout.retry_pause_sec,
            progress=watcher.trial,
        )
        yield SamplingParts(source, parts.bundle, engine, auditor, rollouts)


def engine_options(section: EngineSection) -> EngineOptions:
    """The engine's own options."""
    return EngineOptions(
        max_running=section.max_running,
        prefill_tokens=section.prefill_tokens,
        cache_tokens=section.cache_tokens,
        threads=section.threads,
    )


@dataclass(frozen=True)
class RuntimeParts:
    """What of a runtime can be refused before the engine is loaded."""

    harness: Harness
    bundle: HarnessBundle
    template: ChatTemplate
    tool_parser: ToolCallParser

    @classmethod
    def load(cls, recipe: Recipe, source: Path) -> "RuntimeParts":
        """Load them.

        Args:
            recipe: The resolved recipe.
            source: The policy's folder.

        Raises:
            LegoError: Something is missing or does not fit.
        """
        harness = registry.make(recipe.harness.name, recipe.harness.options)
        bundle = registry.load(recipe.harness.name)
        template = ChatTemplate.load(source)
        check_parser(template, recipe.policy.tool_parser)
        return cls(harness, bundle, template, tool_call_parser(recipe.policy.tool_parser))


def _runtime(recipe: Recipe, parts: RuntimeParts, directory: RunDirectory, engine: Engine) -> Runtime:
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


def check_tasks(tasks: Iterable[Task], provider: Provider) -> None:
    """Whether trials of some tasks can be run here, as far as their files tell.

    Raises:
        TaskError: One is incomplete, or shows what it hides.
        UnservedTaskError: One asks for what this environment does not do.
        SandboxError: What one starts from is not here.
    """
    for task in tasks:
        check_task(task, provider)


def room_for(recipe: Recipe, tasks: Iterable[Task]) -> str | None:
    """Whether this machine has room for the trials that run at the same time.

    Returns:
        What to be told of, if anything; see `check_room`.

    Raises:
        SandboxError: It has not.
    """
    allowed = [recipe.sandbox.limits(task.memory_mb, task.storage_mb) for task in tasks]
    return check_room(recipe.sandbox, state_of(recipe.sandbox), allowed, recipe.rollout.concurrency)
