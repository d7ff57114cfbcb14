"""Counters of an engine: what it computed, what the cache spared it, and where the seconds went."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineStats:
    """Totals since the engine was made.

    Attributes:
        calls_finished: Calls that were answered.
        calls_aborted: Calls that were cancelled before they ended.
        prefilled_tokens: Prompt tokens computed.
        restored_tokens: Prompt tokens taken from the prefix cache.
        sampled_tokens: Tokens sampled.
        steps: Forwards.
        spans: Sequences over all steps; ``spans / steps`` is the mean batch.
        largest_batch: Most sequences in one step.
        prefill_seconds: In steps that fed any prompt token.
        decode_seconds: In steps that only decoded.
        weight_loads: How often weights were replaced.
        running: Calls in the batch now.
        waiting: Calls waiting for a place now.
        cached_blocks: Blocks in the prefix cache now.
    """

    calls_finished: int = 0
    calls_aborted: int = 0
    prefilled_tokens: int = 0
    restored_tokens: int = 0
    sampled_tokens: int = 0
    steps: int = 0
    spans: int = 0
    largest_batch: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    weight_loads: int = 0
    running: int = 0
    waiting: int = 0
    cached_blocks: int = 0

    @property
    def mean_batch(self) -> float:
        """Sequences a step."""
        return self.spans / self.steps if self.steps else 0.0

    @property
    def cache_hit_fraction(self) -> float:
        """Prompt tokens that were not computed ÷ all prompt tokens."""
        prompt_tokens = self.prefilled_tokens + self.restored_tokens
        return self.restored_tokens / prompt_tokens if prompt_tokens else 0.0
