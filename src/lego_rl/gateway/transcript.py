"""What a trial leaves behind whose policy is a chat backend: messages and counts.

Invariant: there are no token ids in it and no segments, so nothing of it can be given to a trainer. It is another type
than `Trajectory`, and shares with it what people and summaries read: calls, conversations, tools, accounting.
"""

from dataclasses import dataclass

from lego_rl.engine.protocol import FinishReason, Timings
from lego_rl.gateway.trajectory import Accounting, CallRole, Fate, Trajectory
from lego_rl.messages import Message, Tool

NO_TOKENS = "chat_backend"
"""Why nothing of what a chat backend answered is trainable, in `Accounting.excluded`."""


@dataclass(frozen=True)
class ChatCall:
    """One model call.

    Attributes:
        call_id: The backend's.
        parent: Index in `Transcript.calls` of the call whose answer this one continues; ``None`` at a start.
        prompt_tokens: Of the whole prompt, by the backend's count; an estimate where it gives none.
        answer_tokens: Of the answer, likewise.
        finish_reason: Why it ended.
        timings: Where the time went.
        role: What the call was for.
        fate: What became of the answer.
        parsed: Whether the arguments of every tool call could be read.
        calls_tools: Whether it holds a tool call.
    """

    call_id: str
    parent: int | None
    prompt_tokens: int
    answer_tokens: int
    finish_reason: FinishReason
    timings: Timings
    role: CallRole
    fate: Fate
    parsed: bool
    calls_tools: bool


@dataclass(frozen=True)
class Transcript:
    """Everything the gateway wrote down about a trial of a chat backend.

    Attributes:
        calls: Every model call in the order of their start, whatever its fate.
        conversations: The neutral messages of every chain of delivered calls; those of the main conversation first.
        tools: Tools offered in the main conversation.
        accounting: Counts, none of them trainable.
    """

    calls: tuple[ChatCall, ...]
    conversations: tuple[tuple[Message, ...], ...]
    tools: tuple[Tool, ...]
    accounting: Accounting


type Captured = Trajectory | Transcript
"""What a session captured, of either kind."""
