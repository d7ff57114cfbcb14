"""Inference servers whose answers a test writes, in pieces."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_rl.cluster.pieces import SamplingParams
from lego_rl.engine.scripted import SyntheticRoutes, synthetic_routes

ROUTES = SyntheticRoutes(layers=3, top_k=2, experts=8)
STOP = 9


@dataclass
class Said:
    """A piece, as verl's ``TokenOutput``."""

    token_ids: Sequence[int]
    log_probs: Sequence[float] | None
    routed_experts: NDArray[Any] | None = None
    stop_reason: str | None = "completed"
    extra_fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    session: str
    prompt_ids: list[int]
    params: SamplingParams


def piece(
    prompt: Sequence[int], ids: Sequence[int], version: int, *, aborted: bool = False, routed: bool = True
) -> Said:
    """A consistent piece: each log-prob says which version and position it is of."""
    start = len(prompt)
    return Said(
        token_ids=list(ids),
        log_probs=[-(version + 1) - (start + at) / 1024 for at in range(len(ids))],
        routed_experts=synthetic_routes([*prompt, *ids][:-1], ROUTES).astype(np.int16) if routed and ids else None,
        stop_reason="aborted" if aborted else "completed",
        extra_fields={"global_steps": version},
    )


@dataclass
class Servers:
    """Implements `PieceServer` by a function of the prompt."""

    say: Callable[[list[int], int], Said]
    asked: list[Asked] = field(default_factory=list)
    hang: asyncio.Event = field(default_factory=asyncio.Event)

    async def piece(self, session: str, prompt_ids: list[int], params: SamplingParams) -> Said:
        self.asked.append(Asked(session, prompt_ids, params))
        await asyncio.sleep(0)
        return self.say(prompt_ids, len(self.asked) - 1)

    async def alive(self) -> None:
        await self.hang.wait()
