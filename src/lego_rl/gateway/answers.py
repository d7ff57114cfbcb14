"""What answers the calls of a session: the one seam between a session and a policy, which has two sides.

An engine samples tokens (`engine_answers`), and all of it is captured; a chat backend replies with messages
(`chat_answers`), and there is nothing to train on. What a session captured is of another type for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.placing import Placed
from lego_rl.gateway.position import Position
from lego_rl.gateway.trajectory import BudgetHit, Refusal
from lego_rl.gateway.tree import TokenTree
from lego_rl.gateway.turn import Turn


@dataclass(frozen=True)
class Spoken:
    """An answer to a call.

    Attributes:
        turn: As the harness gets it.
        truncated: Whether the token limit ended it.
        tokens: How many it has.
    """

    turn: Turn
    truncated: bool
    tokens: int


class Answers[C](Protocol):
    """Answers the calls of one session; `C` is what it captured."""

    @property
    def tree(self) -> TokenTree:
        """The session's calls."""
        ...

    async def far_longer(self, found: Position, limit: int) -> int | None:
        """Tokens of a request, roughly, where they are far more than the `limit` of a prompt; else ``None``."""
        ...

    async def place(self, found: Position, request: Request) -> Placed:
        """Give a request its place in the tree, and its prompt a length; `found` is what its messages say.

        Raises:
            TemplateError: The template refuses the conversation.
        """
        ...

    async def answer(self, call: Call, request: Request) -> Spoken:
        """Answer a call of `request`. When it returns, the answer is in the tree, but for `TokenTree.read`.

        Raises:
            EngineError: What answers failed; the call may be tried again.
            ContextOverflow: It says that the prompt does not fit, which the gateway could not know.
            PromptRefused: It refuses the conversation for what is in it.
            CaptureError: The answer contradicts itself.
        """
        ...

    def captured(self, budget_hit: BudgetHit | None, refused: Mapping[Refusal, int]) -> C:
        """All of the session, which is over.

        Args:
            budget_hit: Which budget ended it, if one did.
            refused: Requests for which no model call was completed: reason → requests.

        Raises:
            CaptureError: Calls contradict each other.
        """
        ...

    def close(self) -> None:
        """Keep nothing more."""
        ...

    def drop_routes(self) -> None:
        """Leave the routes, where there are any, to what was captured."""
        ...


class Policy[C](Protocol):
    """Whatever answers the sessions of a gateway."""

    def answers(self, budget: Budget, *, temperature: float, seed: int | None) -> Answers[C]:
        """What answers a new session.

        Args:
            budget: What it may spend.
            temperature: Of every call.
            seed: Makes its sampling reproducible, where that can be; ``None`` leaves it to what samples.
        """
        ...

    async def progressed(self) -> None:
        """See `Engine.progressed`."""
        ...
