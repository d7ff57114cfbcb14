"""One call's state while it is in the engine, and the sample it becomes.

Invariant: `token_ids`, `logprobs` and `spans` grow together, by `take`, once a drawn token. Every sampled token but the
last is fed, so when a call ends its state holds ``P + T - 1`` positions, each with its routes.
"""

import time
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lego_rl.engine.embedded.drawing import Draw, Uniforms
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.engine.embedded.prefix_cache import BlockKeys
from lego_rl.engine.protocol import FinishReason, Sample, Sampling, Timings, WeightSpan


@dataclass(eq=False)
class Call:
    """One `generate` call.

    Attributes:
        call_id: Unique per engine.
        prompt_ids: ``[P]``.
        sampling: How to sample.
        routes_from: First position whose routes the caller wants.
        uniforms: The call's own random stream.
        forced_ids: Its first tokens, which are not drawn.
        loop: Where `future` lives.
        future: Resolved with the sample or an error.
        cancelled: Set when nobody awaits the call any more.
        kv: Keys, values and routes, from the moment the call has a place in the batch.
        keys: Keys of the call's blocks; ``None`` once its state mixes weights and must not be shared.
        token_ids: Sampled so far.
        logprobs: Their log-probs.
        spans: Their weight versions.
    """

    call_id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    routes_from: int
    uniforms: Uniforms
    forced_ids: Sequence[int]
    loop: AbstractEventLoop
    future: "Future[Sample]"
    cancelled: bool = False
    kv: KvBuffer | None = None
    keys: BlockKeys | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[WeightSpan] = field(default_factory=list)
    received: float = field(default_factory=time.perf_counter)
    admitted: float = 0.0
    prefilled: float = 0.0

    @property
    def decoding(self) -> bool:
        """Whether the prompt is done, which the first sampled token proves."""
        return bool(self.token_ids)

    def admit(self, kv: KvBuffer, serial: int) -> None:
        """Give the call a place in the batch under the weights of this serial."""
        self.kv, self.keys, self.admitted = kv, BlockKeys(serial), time.perf_counter()

    def change_weights(self, serial: int) -> None:
        """Go on under other weights.

        A prompt in prefill starts again. A call that has sampled keeps its state, as partial rollouts do (its later
        tokens attend to keys of the earlier weights), and shares it with nobody.
        """
        if self.decoding or self.kv is None:
            self.keys = None
        else:
            self.kv.length = 0
            self.keys = BlockKeys(serial)

    def next_draw(self) -> Draw:
        """How the next token is drawn; consumes one uniform of the stream."""
        position = len(self.token_ids)
        forced = self.forced_ids[position] if position < len(self.forced_ids) else None
        return Draw(self.sampling.temperature, self.uniforms.next(), forced)

    def take(self, token_id: int, logprob: float, version: int) -> FinishReason | None:
        """Append a drawn token; returns why the call ends with it, if it does."""
        if not self.token_ids:
            self.prefilled = time.perf_counter()
        position = len(self.token_ids)
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if self.spans and self.spans[-1].version == version:
            self.spans[-1] = WeightSpan(version, self.spans[-1].start, position + 1)
        else:
            self.spans.append(WeightSpan(version, position, position + 1))
        if token_id in self.sampling.stop_token_ids:
            return "stop"
        return "length" if position + 1 == self.sampling.max_tokens else None

    def fed_ids(self) -> Sequence[int]:
        """Tokens whose state is computed."""
        assert self.kv is not None
        return (*self.prompt_ids, *self.token_ids)[: self.kv.length]

    def sample(self, reason: FinishReason) -> Sample:
        """The call's answer."""
        assert self.kv is not None
        end = len(self.prompt_ids) + len(self.token_ids) - 1
        routed_layers = self.kv.routes.shape[1]
        return Sample(
            call_id=self.call_id,
            prompt_ids=self.prompt_ids,
            token_ids=tuple(self.token_ids),
            logprobs=np.array(self.logprobs, np.float32),
            finish_reason=reason,
            weight_versions=tuple(self.spans),
            routes=self.kv.routes[self.routes_from : end].copy() if routed_layers else None,
            routes_from=self.routes_from,
            timings=Timings(
                queued=self.admitted - self.received,
                prefill=self.prefilled - self.admitted,
                decode=time.perf_counter() - self.prefilled,
            ),
        )
