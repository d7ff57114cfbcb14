"""From a recipe to what its trials are run with: engine and auditor, gateway, harness, sandboxes, journal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lego_rl.commands.engines import ServedWeights, open_engine
from lego_rl.commands.recipe_check import CheckedPolicy, RuntimeParts
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.commands.trial_watcher import TrialWatcher
from lego_rl.config.recipe import Recipe
from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import FileAuditLog
from lego_rl.engine.protocol import Engine
from lego_rl.gateway.connections import connections_each
from lego_rl.gateway.server import Gateway
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime
from lego_rl.train.checkpoints import Checkpoints

type EngineWrapper = Callable[[Engine], Engine]
"""Stands between the auditor and the gateway: nothing, or what a control experiment injects."""


def unchanged(engine: Engine) -> Engine:
    """Injects nothing."""
    return engine


@dataclass(frozen=True)
class SamplingParts:
    """What trials are run with.

    Attributes:
        engine: The weights of the policy as it is now.
        auditor: Keeps what every call of it returned.
        rollouts: Runs batches of trials.
    """

    engine: ServedWeights
    auditor: AuditedEngine
    rollouts: RolloutRunner


@contextmanager
def sampling_parts(
    recipe: Recipe,
    policy: CheckedPolicy,
    directory: RunDirectory,
    watcher: TrialWatcher,
    *,
    inject: EngineWrapper = unchanged,
) -> Iterator[SamplingParts]:
    """Put together what trials are run with, and lock the run; the policy is that of the last checkpoint, if any.

    Args:
        recipe: The resolved recipe.
        policy: What it names, which was seen to be there.
        directory: The run's folder.
        watcher: Is told of every trial.
        inject: Stands between the auditor and the gateway.

    Raises:
        LegoError: The folder is in use, or the weights cannot be loaded.
    """
    with (
        # First, for it locks the run: what another process is still at work on is no last checkpoint to go on from.
        Journal(directory.journal) as journal,
        open_engine(
            recipe, policy.source, directory, Checkpoints(directory.checkpoints, recipe.run.keep_checkpoints)
        ) as opened,
        FileAuditLog(directory.path / "audit") as audit_log,
    ):
        auditor = AuditedEngine(opened.engine, audit_log)
        rollouts = RolloutRunner(
            runtime=_runtime(recipe, policy.parts, directory, inject(auditor)),
            journal=journal,
            concurrency=recipe.rollout.concurrency,
            retries=recipe.rollout.retries,
            retry_pause_sec=recipe.rollout.retry_pause_sec,
            progress=watcher.trial,
        )
        yield SamplingParts(opened.weights, auditor, rollouts)


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
