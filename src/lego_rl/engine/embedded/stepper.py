"""One step of the engine: plan, feed, draw, answer. Single-threaded; `worker` owns the thread it runs in.

Invariant: weights change only between two steps, and a token's version is that of the weights its logits came from.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lego_rl.engine.embedded.call import Call
from lego_rl.engine.embedded.drawing import draw
from lego_rl.engine.embedded.forward import Rotary, Span, forward
from lego_rl.engine.embedded.kv import KvBuffer
from lego_rl.engine.embedded.prefix_cache import BLOCK_TOKENS, PrefixCache
from lego_rl.engine.embedded.schedule import Schedule
from lego_rl.engine.embedded.stats import EngineStats
from lego_rl.engine.embedded.weights import Weights
from lego_rl.engine.protocol import EngineError, Sample

_FIRST_RESERVE = 256
"""Sampled tokens that a new call has room for before its state grows."""


@dataclass(frozen=True)
class EngineOptions:
    """How an engine uses its machine. None of it changes what is sampled, beyond rounding.

    Attributes:
        max_running: Calls decoded together; further calls wait.
        prefill_tokens: Most prompt tokens a step feeds beside the decoding calls. Larger prefills faster and makes
            running calls wait longer.
        cache_tokens: Tokens the prefix cache has room for; 0 shares nothing. A token takes
            ``2 layers kv_heads head_dim`` numbers, and the whole room is reserved at once.
        threads: Threads of one operator on the CPU. At demo sizes one is fastest unless the machine is idle. torch has
            one number for the whole process: this one holds while the engine has calls, and what was set before comes
            back when it is idle.
    """

    max_running: int = 16
    prefill_tokens: int = 256
    cache_tokens: int = 65_536
    threads: int = 1


class Stepper:
    """The engine's state and its step.

    Args:
        weights: First weights.
        version: Their version.
        options: Sizes.
        answer: Called with a call that has ended and its sample.
    """

    def __init__(
        self, weights: Weights, version: int, options: EngineOptions, answer: Callable[[Call, Sample], None]
    ) -> None:
        self._answer = answer
        self._serial = 0
        self._totals = EngineStats()
        self._rotary = Rotary(weights.geometry, weights.dtype, weights.device)
        self._cache = PrefixCache(weights.geometry, weights.dtype, weights.device, options.cache_tokens)
        self.weights = weights
        self.version = version
        self.schedule = Schedule(self._cache, options.max_running, options.prefill_tokens)

    def stats(self) -> EngineStats:
        """Totals so far; may be called from any thread."""
        return replace(
            self._totals,
            restored_tokens=self.schedule.restored_tokens,
            running=len(self.schedule.running),
            waiting=len(self.schedule.waiting),
            cached_blocks=len(self._cache),
        )

    def load(self, weights: Weights, version: int) -> None:
        """Replace the weights between two steps; running calls go on under the new ones."""
        self.weights, self.version = weights, version
        self._serial += 1
        self._cache.clear()
        for call in self.schedule.running:
            call.change_weights(self._serial)
        self._totals = replace(self._totals, weight_loads=self._totals.weight_loads + 1)

    def step(self) -> bool:
        """Feed and draw once for every call that can go on.

        Returns:
            Whether any could, or there is no call: false would go on for ever.

        Raises:
            EngineError: The policy's logits are not finite.
        """
        started = time.perf_counter()
        aborted = self.schedule.drop_cancelled()
        for call in self.schedule.admissible():
            call.admit(self._new_state(call), self._serial)
        planned = self.schedule.plan()
        prefilled = sum(len(span.token_ids) for call, span in planned if not call.decoding)
        finished: list[tuple[Call, Sample]] = []
        if planned:
            logits = forward(self.weights, self._rotary, [span for _, span in planned])
            self._store_prefixes(planned)
            drawing = [call for call, span in planned if span.wants_logits]
            if drawing:
                finished = self._take(drawing, *draw(logits, [call.next_draw() for call in drawing]))
        seconds = time.perf_counter() - started
        was = self._totals
        self._totals = replace(
            was,
            calls_finished=was.calls_finished + len(finished),
            calls_aborted=was.calls_aborted + aborted,
            prefilled_tokens=was.prefilled_tokens + prefilled,
            sampled_tokens=was.sampled_tokens + sum(span.wants_logits for _, span in planned),
            steps=was.steps + bool(planned),
            spans=was.spans + len(planned),
            largest_batch=max(was.largest_batch, len(planned)),
            prefill_seconds=was.prefill_seconds + (seconds if prefilled else 0.0),
            decode_seconds=was.decode_seconds + (0.0 if prefilled else seconds),
        )
        for call, sample in finished:
            self._answer(call, sample)
        return bool(planned) or not (self.schedule.running or self.schedule.waiting)

    def _new_state(self, call: Call) -> KvBuffer:
        room = len(call.prompt_ids) + min(call.sampling.max_tokens, _FIRST_RESERVE)
        return KvBuffer(self.weights.geometry, self.weights.dtype, self.weights.device, room)

    def _store_prefixes(self, planned: Sequence[tuple[Call, Span]]) -> None:
        for call, _ in planned:
            if not call.decoding and call.keys is not None and call.kv is not None:
                self._cache.store(call.keys.of(call.prompt_ids)[: call.kv.length // BLOCK_TOKENS], call.kv)

    def _take(
        self, drawing: Sequence[Call], token_ids: Sequence[int], logprobs: Sequence[float]
    ) -> list[tuple[Call, Sample]]:
        """Append the drawn tokens; returns the calls that end with them."""
        finished: list[tuple[Call, Sample]] = []
        for call, token_id, logprob in zip(drawing, token_ids, logprobs, strict=True):
            if not math.isfinite(logprob):
                raise EngineError(f"the policy's logits are not finite under weight version {self.version}")
            reason = call.take(token_id, logprob, self.version)
            if reason is not None:
                finished.append((call, call.sample(reason)))
                self.schedule.running.remove(call)
                if call.keys is not None and call.kv is not None:
                    self._cache.store(call.keys.of(call.fed_ids()), call.kv)
        return finished
