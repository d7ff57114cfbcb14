"""Trials of a policy that an engine samples from, without training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from lego_rl.commands.recipe_check import CheckedPolicy, check_sampling
from lego_rl.commands.rollouts import RolloutRunner
from lego_rl.commands.sampled_policy import SampledPolicy, sampled_policy
from lego_rl.commands.trial_watcher import TrialWatcher
from lego_rl.config.recipe import Recipe
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory


@dataclass(frozen=True)
class EngineBatch:
    """A batch of trials of a policy that an engine samples from.

    Attributes:
        who: Whose trials they are.
    """

    who: SampledPolicy
    _runner: RolloutRunner

    async def __call__(
        self,
        specs: Sequence[TrialSpec],
        handovers: Mapping[str, Handover] | None = None,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> list[TrialRecord]:
        """Run them, or load what is already scored; see `RolloutRunner`."""
        return await self._runner(specs, handovers, may_begin)


@dataclass(frozen=True)
class EngineTrials:
    """A policy and what it is tried with, which are there and fit.

    Attributes:
        recipe: The resolved recipe.
        policy: What it names.
    """

    recipe: Recipe
    policy: CheckedPolicy

    @classmethod
    def checked(cls, recipe: Recipe) -> "EngineTrials":
        """See that trials can be run.

        Raises:
            LegoError: Something is missing or does not fit.
        """
        return cls(recipe, check_sampling(recipe))

    def who(self, temperature: float) -> SampledPolicy:
        """Whose trials they are."""
        return sampled_policy(self.recipe, temperature, self.policy.source, self.policy.parts.bundle)

    @contextmanager
    def opened(self, directory: RunDirectory, watcher: TrialWatcher, temperature: float) -> Iterator[EngineBatch]:
        """Put together what trials are run with, and lock the run.

        Args:
            directory: The run's folder.
            watcher: Is told of every trial.
            temperature: Of the trials.

        Raises:
            LegoError: The folder is in use, or the weights cannot be loaded.
        """
        typer.echo("loading the policy", err=True)
        from lego_rl.commands.sampling import sampling_parts  # torch: what cannot be run is refused before that

        with sampling_parts(self.recipe, self.policy, directory, watcher) as sampling:
            yield EngineBatch(self.who(temperature), sampling.rollouts)
