"""Which tokens the next step feeds.

Invariant: every decoding call gets its one token in every step, so a long prompt never starves running calls; prefill
fills what the step's budget leaves, first come first served, in chunks that end on block boundaries.

Two calls that need the same block never compute it twice: the later one waits a step and finds it in the prefix cache.
"""

from collections import deque
from collections.abc import Iterator

from lego_rl.engine.embedded.call import Call
from lego_rl.engine.embedded.forward import Span
from lego_rl.engine.embedded.prefix_cache import BLOCK_TOKENS, PrefixCache


class Schedule:
    """The calls that wait and the calls that have a place in the batch.

    Args:
        cache: Where prefixes are found.
        max_running: Places in the batch.
        prefill_tokens: Most prompt tokens fed in one step; a multiple of the block size.

    Attributes:
        waiting: Calls without a place, oldest first.
        running: Calls with a place, oldest first.
        restored_tokens: Prompt tokens that the cache has answered for so far.
    """

    def __init__(self, cache: PrefixCache, max_running: int, prefill_tokens: int) -> None:
        self._cache = cache
        self._max_running = max_running
        self._prefill_tokens = prefill_tokens
        self.waiting: deque[Call] = deque()
        self.running: list[Call] = []
        self.restored_tokens = 0

    def __iter__(self) -> Iterator[Call]:
        yield from self.running
        yield from self.waiting

    def drop_cancelled(self) -> int:
        """Forget calls that nobody awaits; returns how many."""
        before = len(self.running) + len(self.waiting)
        self.running = [call for call in self.running if not call.cancelled]
        self.waiting = deque(call for call in self.waiting if not call.cancelled)
        return before - len(self.running) - len(self.waiting)

    def admissible(self) -> Iterator[Call]:
        """Move waiting calls into free places, yielding each so that the caller admits it."""
        while self.waiting and len(self.running) < self._max_running:
            call = self.waiting.popleft()
            self.running.append(call)
            yield call

    def plan(self) -> list[tuple[Call, Span]]:
        """The next step: at least one span if any call is running."""
        planned: list[tuple[Call, Span]] = []
        budget = self._prefill_tokens
        in_this_step: set[bytes] = set()
        for call in self.running:
            if call.decoding:
                assert call.kv is not None
                planned.append((call, Span(call.token_ids[-1:], call.kv, wants_logits=True)))
            elif budget > 0 and (span := self._prefill(call, budget, in_this_step)) is not None:
                planned.append((call, span))
                budget -= len(span.token_ids)
        return planned

    def _prefill(self, call: Call, budget: int, in_this_step: set[bytes]) -> Span | None:
        assert call.kv is not None
        assert call.keys is not None
        prompt, kv = call.prompt_ids, call.kv
        keys = call.keys.of(prompt[:-1])  # the last token is always fed: its logits are needed
        if kv.length % BLOCK_TOKENS == 0:
            self.restored_tokens += self._cache.restore(keys, kv)
        start = kv.length // BLOCK_TOKENS
        if not in_this_step.isdisjoint(keys[start : start + 1]):
            return None
        end = min(kv.length + budget, len(prompt))
        if end < len(prompt):
            end -= end % BLOCK_TOKENS
        if end <= kv.length:
            return None
        in_this_step.update(keys[start : end // BLOCK_TOKENS])
        return Span(prompt[kv.length : end], kv, wants_logits=end == len(prompt))
