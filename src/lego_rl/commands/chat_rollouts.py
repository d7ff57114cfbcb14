"""Trials of a policy behind an endpoint: what a recipe names for them, and how a batch of them is run."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.commands.sampled_policy import SampledPolicy
from lego_rl.commands.trial_watcher import TrialWatcher
from lego_rl.config.recipe import Recipe
from lego_rl.engine.chat import OpenAIChatBackend
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.errors import ConfigError
from lego_rl.gateway.connections import connections_each
from lego_rl.gateway.server import ChatGateway
from lego_rl.harness import registry
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial import Runtime
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.environments import provider_of, state_of

_DIGITS = 12


@dataclass(frozen=True)
class ChatBatch:
    """A batch of trials of a policy behind an endpoint.

    Attributes:
        who: Whose trials they are.
    """

    who: SampledPolicy
    _backend: OpenAIChatBackend
    _runner: RolloutRunner

    async def __call__(
        self,
        specs: Sequence[TrialSpec],
        handovers: Mapping[str, Handover] | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> list[TrialRecord]:
        """Run them, or load what is already scored; see `RolloutRunner`."""
        async with self._backend:
            return await self._runner(specs, handovers, may_begin)


@dataclass(frozen=True)
class ChatTrials:
    """A policy behind an endpoint and what it is tried with, which are there and fit.

    Attributes:
        recipe: The resolved recipe.
        settings: Its engine.
        backend: Answers.
        harness: The adapter.
        bundle: The installed harness.
    """

    recipe: Recipe
    settings: ChatSettings
    backend: OpenAIChatBackend
    harness: Harness
    bundle: HarnessBundle

    @classmethod
    def checked(cls, recipe: Recipe, settings: ChatSettings, temperature: float) -> "ChatTrials":
        """See that trials can be run: the endpoint is asked once.

        Args:
            recipe: The resolved recipe.
            settings: Its engine.
            temperature: Of the trials.

        Raises:
            LegoError: Something is missing or does not fit.
        """
        provider_of(recipe.sandbox).check()
        check_state_folder(state_of(recipe.sandbox).root)
        harness = registry.make(recipe.harness.name, recipe.harness.options)
        bundle = registry.load(recipe.harness.name)
        backend = OpenAIChatBackend(settings)
        asyncio.run(ask_once(backend, temperature))
        asyncio.run(check_context(backend, settings.model, recipe.budget.context_tokens))
        return cls(recipe, settings, backend, harness, bundle)

    @contextmanager
    def opened(self, directory: RunDirectory, watcher: TrialWatcher, temperature: float) -> Iterator[ChatBatch]:
        """Put together what trials are run with, and lock the run.

        Args:
            directory: The run's folder.
            watcher: Is told of every trial.
            temperature: Of the trials.

        Raises:
            LegoError: The folder is in use.
        """
        rollout = self.recipe.rollout
        runtime = Runtime(
            gateway=ChatGateway(self.backend, connections=connections_each(rollout.concurrency)),
            harness=self.harness,
            bundle=self.bundle,
            directory=directory,
            sandbox=self.recipe.sandbox,
        )
        with Journal(directory.journal) as journal:
            runner = RolloutRunner(
                runtime=runtime,
                journal=journal,
                concurrency=rollout.concurrency,
                retries=rollout.retries,
                retry_pause_sec=rollout.retry_pause_sec,
                progress=watcher.trial,
            )
            yield ChatBatch(self.who(temperature), self.backend, runner)

    def who(self, temperature: float) -> SampledPolicy:
        """Whose trials they are: all that decides an answer tells them from others', and nothing that only paces it."""
        asked = self.settings.model_dump(mode="json", include={"url", "model", "reasoning", "extra"})
        recipe = self.recipe
        said = {
            **asked,
            "budget": recipe.budget.model_dump(mode="json"),
            "harness": [recipe.harness.name, recipe.harness.options, self.bundle.hash],
            "temperature": float(temperature),
        }
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:_DIGITS]
        name = self.settings.model.rpartition("/")[2]
        return SampledPolicy(f"{name}@{digest}", f"{self.bundle.name} {self.bundle.version}")


async def ask_once(backend: OpenAIChatBackend, temperature: float) -> None:
    """See that an endpoint answers at all; see `OpenAIChatBackend.check`."""
    async with backend:
        await backend.check(temperature)


async def check_context(backend: OpenAIChatBackend, model: str, asked: int) -> None:
    """See that an endpoint has as much context as a trial may use, where it says how much that is.

    Args:
        backend: The endpoint.
        model: The model's name there.
        asked: Longest prompt plus answer of one call, in tokens.

    Raises:
        ConfigError: It has less: a trial would end there, and not where the budget says.
    """
    async with backend:
        context = await backend.context()
    if context is not None and context < asked:
        raise ConfigError(
            f"budget.context_tokens is {asked}, and {model!r} behind the endpoint has a context of {context}",
            f"serve it with more (vllm serve --max-model-len {asked}), or set budget.context_tokens to {context}",
        )
