"""The one interface between whoever has a prompt and whatever samples from the policy.

Invariant: a `Sample` is exactly what was drawn, with the log-probs of the very distribution it was drawn from, recorded
when it was drawn. Nothing in it is ever recomputed, padded or guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

type FinishReason = Literal["stop", "length"]
"""``stop``: a stop token was sampled (the last of `Sample.token_ids`). ``length``: the token limit was reached."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. The gateway sets it; nothing a harness sends changes it.

    Attributes:
        temperature: Divides the logits; > 0, or 0 for greedy decoding (evaluation only).
        max_tokens: Most tokens to sample in this call.
        stop_token_ids: Sampling ends after any of these.
        seed: Makes one call reproducible; ``None`` draws from the engine's own generator.
    """

    temperature: float
    max_tokens: int
    stop_token_ids: tuple[int, ...]
    seed: int | None = None


@dataclass(frozen=True)
class WeightSpan:
    """Sampled positions ``[start, end)`` of one call that were drawn under weight version `version`."""

    version: int
    start: int
    end: int


@dataclass(frozen=True)
class Timings:
    """Seconds of one call: waiting for a place in the batch, prefilling, decoding."""

    queued: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0


@dataclass(frozen=True)
class Sample:
    """What one engine call returned.

    Attributes:
        call_id: Unique per engine; the auditor reconciles by it.
        prompt_ids: ``[P]`` the prompt exactly as the engine was given it; best the very object.
        token_ids: ``[T]`` sampled ids, a stop token included.
        logprobs: ``[T]`` float32, natural log, of the distribution sampled from (after temperature).
        finish_reason: Why sampling ended.
        weight_versions: Spans that cover ``[0, T)`` in order.
        routes: ``[P + T - 1 - routes_from, layers, top_k]`` uint8: the experts of every position from `routes_from` on
            (the last sampled token is never fed, so it has no row); ``None`` for a dense model.
        routes_from: Position of the first row of `routes`.
        timings: Where the time went.
    """

    call_id: str
    prompt_ids: Sequence[int]
    token_ids: tuple[int, ...]
    logprobs: NDArray[np.float32]
    finish_reason: FinishReason
    weight_versions: tuple[WeightSpan, ...]
    routes: NDArray[np.uint8] | None = None
    routes_from: int = 0
    timings: Timings = field(default_factory=Timings)


class Engine(Protocol):
    """Samples from the policy. Implementations: embedded torch, scripted; later vLLM over HTTP and verl's client."""

    @property
    def weight_version(self) -> int:
        """Version of the weights that a call started now would sample from."""
        ...

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        """Sample a continuation of `prompt_ids`.

        Cancelling the awaiting task aborts the generation and frees its place in the batch.

        Args:
            prompt_ids: ``[P]``, at least one id; from the gateway a `TokenIds`.
            sampling: How to sample; ``P + max_tokens`` must fit the model's context.
            routes_from: The caller already holds the expert routes of the positions before this one.

        Returns:
            The sample.

        Raises:
            EngineError: The engine failed or is unhealthy; the call may be tried again.
        """
        ...

    async def progressed(self) -> None:
        """Return once the engine has done something for anybody since this was called; never while it hangs.

        Something is a step, whichever calls are in it: how long the queue is, how long prompts and answers are and who
        sent them make no difference, so no load brings it about that this does not return. An engine that has nothing
        to do, that whoever trains has paused, or that takes new weights does not hang, and this returns. It joins no
        queue of calls and samples nothing. An engine behind HTTP looks at the counters of its steps and at its health.

        Raises:
            EngineError: The engine failed or is unhealthy.
        """
        ...


class EngineError(Exception):
    """The engine could not answer: an infrastructure fault that the gateway turns into a status worth retrying.

    It masks the trial that ends on it, so an engine raises it for the state that it is in and never for what, how much
    or how often it is asked, which agents choose: a call that waits for long is none.
    """
