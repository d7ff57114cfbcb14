"""What trials are run with in one agent-loop worker: engine and auditor, gateway, harness, sandboxes, journal.

Invariant: a worker process has one host, on its event loop, and a folder of its own below the run directory, whose
journal it locks. A worker that takes another one's place in a later run goes on with that one's folder.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lego_rl.cluster.engine import ClusterEngine
from lego_rl.cluster.pieces import PieceServer
from lego_rl.cluster.specs import RowSpecs
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.engine.audit import AuditedEngine
from lego_rl.engine.audit_log import FileAuditLog
from lego_rl.engine.protocol import Engine
from lego_rl.errors import ConfigError
from lego_rl.gateway.connections import connections_each
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.tool_calls.probe import check_parser
from lego_rl.harness import registry
from lego_rl.policies import policy_directory
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.stream import TrialStream
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.environments import provider_of, state_of

WORKERS = "workers"
"""Folder of the run directory that holds one run directory for each worker."""


@dataclass(frozen=True)
class TrialHost:
    """Runs the trials of one worker.

    Attributes:
        name: The worker's, which its folder has.
        recipe: The resolved recipe.
        directory: The worker's folder.
        specs: Makes specifications of dataset rows.
        auditor: Keeps what every engine call returned.
        trials: Runs them.
        journal: The worker's, locked.
        audit_log: The auditor's book.
    """

    name: str
    recipe: Recipe
    directory: RunDirectory
    specs: RowSpecs
    auditor: AuditedEngine
    trials: TrialStream
    journal: Journal
    audit_log: FileAuditLog

    @classmethod
    async def open(cls, path: Path, name: str, server: PieceServer, context: int | None = None) -> Self:
        """Put a worker's parts together.

        Args:
            path: The resolved recipe.
            name: The worker's.
            server: Samples from the policy.
            context: Longest prompt plus response that the inference servers take, in tokens.

        Raises:
            LegoError: Something that the recipe names is missing or does not fit, or the folder is in use.
        """
        recipe = read(Recipe, path)
        _check_context(recipe, context)
        directory = RunDirectory.make(recipe.run.dir / WORKERS / name)
        journal = Journal(directory.journal)
        try:
            audit_log = FileAuditLog(directory.path / "audit")
            auditor = AuditedEngine(ClusterEngine(server, name=name), audit_log)
            runtime = await asyncio.to_thread(_runtime, recipe, directory, auditor)
            trials = TrialStream(
                runtime,
                journal,
                concurrency=recipe.rollout.concurrency,
                retries=recipe.rollout.retries,
                retry_pause_sec=recipe.rollout.retry_pause_sec,
            )
            await trials.prepare()
        except BaseException:
            journal.close()
            raise
        return cls(name, recipe, directory, RowSpecs(recipe), auditor, trials, journal, audit_log)

    def close(self) -> None:
        """Give up the folder."""
        self.journal.close()
        self.audit_log.close()


class Hosts:
    """The host of a process, which is made when its first trial comes."""

    def __init__(self) -> None:
        self._hosts: dict[Path, asyncio.Future[TrialHost]] = {}

    async def get(
        self, path: Path, name: str, server: Callable[[], PieceServer], context: int | None = None
    ) -> TrialHost:
        """The host of a recipe.

        Args:
            path: The resolved recipe.
            name: The worker's.
            server: Makes what samples from the policy, for the first trial.
            context: As for `TrialHost.open`.

        Raises:
            LegoError: As for `TrialHost.open`, for every trial again.
        """
        if path not in self._hosts:
            self._hosts[path] = asyncio.ensure_future(TrialHost.open(path, name, server(), context))
        return await asyncio.shield(self._hosts[path])


def _check_context(recipe: Recipe, context: int | None) -> None:
    """A server whose context ends before the budget would end answers that the policy had not ended."""
    if context is not None and context < recipe.budget.context_tokens:
        raise ConfigError(
            f"budget.context_tokens is {recipe.budget.context_tokens}, the inference servers take {context}",
            "raise rollout.max_model_len, or data.max_prompt_length and data.max_response_length",
        )


def _runtime(recipe: Recipe, directory: RunDirectory, engine: Engine) -> Runtime:
    """What the trials of a worker share."""
    provider_of(recipe.sandbox).check()
    check_state_folder(state_of(recipe.sandbox).root)
    template = ChatTemplate.load(policy_directory(recipe.policy.path))
    check_parser(template, recipe.policy.tool_parser)
    return Runtime(
        gateway=Gateway(
            engine,
            template,
            tool_call_parser(recipe.policy.tool_parser),
            connections=connections_each(recipe.rollout.concurrency),
            capture=recipe.capture,
            spool=directory.scratch,
        ),
        harness=registry.make(recipe.harness.name, recipe.harness.options),
        bundle=registry.load(recipe.harness.name),
        directory=directory,
        sandbox=recipe.sandbox,
    )
