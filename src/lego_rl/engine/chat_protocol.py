"""The interface to whatever answers whole conversations, such as a hosted model: for evaluation, never for training.

Invariant: nothing here knows a token id, so nothing that comes from here can be trained on. Token counts are the
backend's own, or absent; none is made up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lego_rl.engine.protocol import FinishReason, Timings
from lego_rl.messages import Message, Tool

type ToolUse = Literal["auto", "required", "none"]
"""Whether the answer may, has to or must not call a tool."""


@dataclass(frozen=True)
class ChatSampling:
    """How an answer is drawn. The gateway sets it; nothing a harness sends changes it.

    Attributes:
        temperature: As the backend understands it.
        max_tokens: Most tokens of the answer, by the backend's count.
        tools: Whether it may call one.
    """

    temperature: float
    max_tokens: int
    tools: ToolUse = "auto"


@dataclass(frozen=True)
class ChatReply:
    """What a backend answered.

    Attributes:
        call_id: Unique per backend.
        message: The answer. Ids of its tool calls are the backend's own, and may be empty or not be unique.
        finish_reason: Why it ended.
        prompt_tokens: Of the whole prompt; ``None`` where the backend does not say.
        answer_tokens: Of the answer, its reasoning included; ``None`` likewise.
        well_formed: Whether the arguments of every tool call could be read.
        timings: Where the time went; all of it is ``decode``.
    """

    call_id: str
    message: Message
    finish_reason: FinishReason
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    well_formed: bool = True
    timings: Timings = field(default_factory=Timings)


class ChatBackend(Protocol):
    """Answers conversations. Implementations: `engine.chat`."""

    async def answer(self, messages: Sequence[Message], tools: Sequence[Tool], sampling: ChatSampling) -> ChatReply:
        """Answer a conversation. Cancelling the awaiting task hangs up.

        Args:
            messages: All of it.
            tools: That may be called.
            sampling: How to answer.

        Raises:
            EngineError: The backend failed or is unhealthy, seen by another call than this one where agents could bring
                the failure about; the call may be tried again.
            PromptTooLongError: The conversation does not fit its context.
            PromptRefusedError: It refuses what is in this conversation, while it answers others.
        """
        ...

    async def progressed(self) -> None:
        """Return once it has answered somebody; see `Engine.progressed`.

        Raises:
            EngineError: It failed or is unhealthy.
        """
        ...


class PromptTooLongError(Exception):
    """A conversation that does not fit a backend's context: the policy's doing, as any budget's end."""


class PromptRefusedError(Exception):
    """A conversation that a backend refuses for what is in it: the policy's doing, or the harness's."""
