"""Budgets: the gateway's, identical for every harness; a harness's own limits are only ever set looser."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """What one trial may spend.

    Attributes:
        turns: Answered model calls, of all roles together.
        context_tokens: Longest prompt plus response of one call, in tokens.
        output_tokens: Most tokens sampled in one call.
        wall_clock_sec: Seconds from the first request; also bounds the agent phase.
    """

    turns: int = 200
    context_tokens: int = 200_000
    output_tokens: int = 32_768
    wall_clock_sec: float = 3_600.0
