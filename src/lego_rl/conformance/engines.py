"""The engines of conformance runs: one that says what a policy does, and a tape of what any engine was asked."""

from collections.abc import Callable, Sequence

from lego_rl.conformance.policy import Policy
from lego_rl.engine.protocol import Engine, Sample, Sampling
from lego_rl.engine.scripted import ScriptedEngine, SyntheticRoutes

_ROUTES = SyntheticRoutes(layers=1, top_k=2, experts=8)
"""The engine's policy has routers, so that their rows are captured, too."""

type EngineOf = Callable[[Policy], Engine]
"""Makes an engine that says what a policy does."""


def scripted(policy: Policy) -> Engine:
    """An engine that makes up log-probs and routes, for a policy that decides nothing by itself."""
    return ScriptedEngine(policy, routes=_ROUTES, version=1)


class Tape:
    """An engine that keeps what every call was given and returned."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.samples: list[Sample] = []

    @property
    def weight_version(self) -> int:
        """See `Engine.weight_version`."""
        return self._engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """See `Engine.generate`."""
        sample = await self._engine.generate(prompt_ids, sampling, routes_from=routes_from)
        self.samples.append(sample)
        return sample

    async def progressed(self) -> None:
        """See `Engine.progressed`."""
        await self._engine.progressed()
