"""Engines that fail in a way of their own, and one that only looks as if it did."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import override

from lego_rl.engine.protocol import Engine, Sample, Sampling


@dataclass
class Wrapped:
    """An engine that does what another does."""

    engine: Engine

    @property
    def weight_version(self) -> int:
        return self.engine.weight_version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        return await self.engine.generate(prompt_ids, sampling, routes_from=routes_from)

    async def progressed(self) -> None:
        await self.engine.progressed()


class Contradictory(Wrapped):
    """Leaves a log-prob out."""

    @override
    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        sample = await super().generate(prompt_ids, sampling, routes_from=routes_from)
        return replace(sample, logprobs=sample.logprobs[1:])


@dataclass
class Loaded(Wrapped):
    """Answers so many calls; all others wait behind those of other sessions, for which it takes its steps."""

    answers: int

    @override
    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        if self.answers == 0:
            await asyncio.Event().wait()
        self.answers -= 1
        return await super().generate(prompt_ids, sampling, routes_from=routes_from)


class Hanging(Loaded):
    """Answers so many calls and then takes no further step for anybody."""

    @override
    async def progressed(self) -> None:
        if self.answers == 0:
            await asyncio.Event().wait()
