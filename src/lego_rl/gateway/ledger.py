"""What a session has spent of its budget, and what it refused.

Invariant: a harness cannot make a session cost more than its budget allows, whatever and however often it asks.
"""

import time
from collections import Counter
from typing import Literal

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import BudgetHit, Refusal

type Over = BudgetHit | Literal["closed"]
"""Why no further model call may start."""

_ATTEMPTS_PER_TURN = 16
"""Model calls that may begin for one that is answered: clients that hang up and try again, an engine that fails, and
prompts that do not fit."""
_COUNTS_PER_TURN = 16
"""Counts of prompt tokens that a turn allows: harnesses count each message and each tool by itself now and then."""


class Ledger:
    """Spending of one session.

    Args:
        budget: What it may spend.

    Attributes:
        refused: Requests for which no model call was completed: reason → requests.
        budget_hit: Which budget ended the session, if one did: no call that began after it was hit was answered. So a
            harness whose prompt overflowed, and that went on with a shorter one, was not ended.
        closed: Whether the session is over, so that nothing is allowed any more.
    """

    def __init__(self, budget: Budget) -> None:
        self.refused: Counter[Refusal] = Counter()
        self.budget_hit: BudgetHit | None = None
        self.closed = False
        self._budget = budget
        self._deadline: float | None = None
        self._counts = 0
        self._hit_before = 0

    def start_clock(self) -> None:
        """The first request came; later ones change nothing."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._budget.wall_clock_sec

    def remaining(self) -> float | None:
        """Seconds left; ``None`` before the first request."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def used_up(self, calls: int, begun: int) -> Over | None:
        """Why no further model call may start, if none may.

        Args:
            calls: Model calls that are answered or in flight.
            begun: Model calls that were ever begun.
        """
        remaining = self.remaining()
        if self.closed:
            return "closed"
        if remaining is not None and remaining <= 0:
            return "wall_clock"
        if calls >= self._budget.turns:
            return "turns"
        tries = begun + self.refused["context"]
        return "attempts" if tries >= _ATTEMPTS_PER_TURN * self._budget.turns else None

    def may_count(self) -> bool:
        """Take one count of prompt tokens, if there is one left."""
        self._counts += 1
        return self._counts <= _COUNTS_PER_TURN * self._budget.turns

    def refuse(self, reason: Over, call: int) -> None:
        """Note a request that a budget, or the end of the session, left without a model call.

        Args:
            reason: Which budget it was.
            call: The number that the next model call will have.
        """
        self.refused[reason] += 1
        # A prompt that did not fit is an end only if nothing follows; what else is used up, stays so.
        if reason != "closed" and self.budget_hit in (None, "context"):
            self.budget_hit = reason
            self._hit_before = call

    def answered(self, call: int) -> None:
        """The policy answered a call: a budget that was hit before it began did not end the session."""
        if call >= self._hit_before:
            self.budget_hit = None
