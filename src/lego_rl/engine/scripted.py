"""An engine that says what it is told: for tests, and for demonstrations captured through the gateway.

Invariant: a script decides tokens only. Everything else of a `Sample` is made here, by the rules of `Engine`: sampling
ends after a stop token or at the limit, call ids are unique, log-probs and routes that a script leaves out are
synthetic and depend on call and position, so that a mix-up of any two tokens shows.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.protocol import EngineError, FinishReason, Sample, Sampling, WeightSpan


@dataclass(frozen=True)
class Reply:
    """What a script says to one prompt.

    Attributes:
        token_ids: At least one; cut after the first stop token and at the limit of the call.
        logprobs: ``[len(token_ids)]``, or ``None`` for synthetic ones.
        routes: ``[P + len(token_ids) - 1, layers, top_k]`` uint8 from position 0 on, or ``None`` for synthetic ones.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float] | None = None
    routes: NDArray[np.uint8] | None = None


type Script = Callable[[tuple[int, ...], Sampling], Reply | Awaitable[Reply]]
"""Gets the prompt and how it is to be sampled; a plain function or a coroutine function. An `EngineError` it raises
reaches the caller."""


@dataclass(frozen=True)
class SyntheticRoutes:
    """Shape of made-up routes: ``layers`` rows of ``top_k`` different experts out of ``experts``."""

    layers: int
    top_k: int
    experts: int


class ScriptedEngine:
    """Implements `Engine` by a script.

    Args:
        script: Answers each prompt.
        routes: Shape of synthetic routes; ``None`` for a policy without routers.
        version: Weight version of every token.
        name: First part of call ids; give each engine of a run its own.
    """

    def __init__(
        self, script: Script, *, routes: SyntheticRoutes | None = None, version: int = 0, name: str = "scripted"
    ) -> None:
        self._script = script
        self._routes = routes
        self._name = name
        self._numbers = itertools.count()
        self.version = version

    @property
    def weight_version(self) -> int:
        """The version that a call started now reports."""
        return self.version

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """Answer by the script; see `Engine.generate`.

        Raises:
            EngineError: The script raised one, or said nothing.
        """
        prompt, version = tuple(prompt_ids), self.version
        call_id = f"{self._name}-{next(self._numbers)}"
        answer = self._script(prompt, sampling)
        reply = answer if isinstance(answer, Reply) else await answer
        await asyncio.sleep(0)  # like any engine, never answer before the caller has suspended
        token_ids, reason = _cut(reply.token_ids, sampling)
        count = len(token_ids)
        logprobs = synthetic_logprobs(call_id, count) if reply.logprobs is None else reply.logprobs[:count]
        routes = reply.routes
        if routes is None and self._routes is not None:
            routes = synthetic_routes((*prompt, *token_ids)[:-1], self._routes)
        return Sample(
            call_id=call_id,
            prompt_ids=prompt,
            token_ids=token_ids,
            logprobs=np.array(logprobs, np.float32),
            finish_reason=reason,
            weight_versions=(WeightSpan(version, 0, count),),
            routes=None if routes is None else routes[routes_from : len(prompt) + count - 1].copy(),
            routes_from=routes_from,
        )

    async def progressed(self) -> None:
        """Return at once: it has no steps that could hang. What a script waits for is the script's own affair."""


def synthetic_logprobs(call_id: str, count: int) -> NDArray[np.float32]:
    """``[count]`` log-probs in (-3, 0), a function of call and position; two of a call are hardly ever equal.

    Args:
        call_id: The call.
        count: Sampled tokens.
    """
    seed = int.from_bytes(hashlib.blake2b(call_id.encode(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).uniform(-3.0, -1e-3, count).astype(np.float32)


def synthetic_routes(token_ids: Sequence[int], shape: SyntheticRoutes) -> NDArray[np.uint8]:
    """``[len(token_ids), layers, top_k]`` routes, a function of each position's id and number, as a policy's would be.

    Args:
        token_ids: The fed tokens, from position 0 on.
        shape: Layers, experts and how many of them a token uses.
    """
    positions = np.arange(len(token_ids))[:, None, None]
    ids = np.asarray(token_ids, np.int64).reshape(-1, 1, 1)
    layers, ranks = np.arange(shape.layers)[None, :, None], np.arange(shape.top_k)[None, None, :]
    return ((ids * 7 + positions * 3 + layers * 5 + ranks) % shape.experts).astype(np.uint8)


def _cut(token_ids: Sequence[int], sampling: Sampling) -> tuple[tuple[int, ...], FinishReason]:
    if not token_ids:
        raise EngineError("the script said nothing; a reply has at least one token")
    for position, token_id in enumerate(token_ids[: sampling.max_tokens]):
        if token_id in sampling.stop_token_ids:
            return tuple(token_ids[: position + 1]), "stop"
    return tuple(token_ids[: sampling.max_tokens]), "length"
