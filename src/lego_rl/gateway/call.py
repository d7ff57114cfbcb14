"""A model call: what it was asked with, after which other one, and what became of it.

Invariant: a call's prompt is its parent's prompt, the first `kept` of its parent's sampled ids, verbatim, and
`context_ids`. So a trial costs memory in proportion to its tokens, however often its history was sent.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.token_ids import TokenIds
from lego_rl.gateway.matching import same_message, same_messages
from lego_rl.gateway.recording import Recording, Reply
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Message, Tool

type ToolChoice = Literal["auto", "required", "none"]
"""What a harness allows: calls, or text only. ``required`` is taken note of and not enforced: nothing is ever forced on
the policy, for what is trained on has to be what it would have sampled."""


@dataclass(frozen=True)
class Request:
    """What a call is asked with, whatever the dialect.

    Attributes:
        messages: The whole conversation.
        tools: Tools offered.
        lane: Who asks, where the harness says so (an agent's id); equal requests of two lanes are not retries.
        tool_choice: Whether calls are allowed. It changes no prompt, only how the answer is read.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    lane: str = ""
    tool_choice: ToolChoice = "auto"

    def is_again(self, known: "Request") -> bool:
        """Whether this is `known` again, but for what is cosmetic."""
        return (
            (known.lane, known.tool_choice) == (self.lane, self.tool_choice)
            and known.tools == self.tools
            and same_messages(known.messages, self.messages, self.tools)
        )

    @property
    def least_tokens(self) -> int:
        """Tokens that its prompt has at the very least: one a message, but for system messages, which may be joined,
        and one a tool and a call."""
        written = len(self.messages) - [message.role for message in self.messages].count("system")
        return written + len(self.tools) + sum([len(message.tool_calls) for message in self.messages])


@dataclass(eq=False)
class Call:
    """A node: one model call, begun or answered.

    Attributes:
        index: Order of the start.
        parent: The call whose answer this one continues.
        request: Tools and lane it was asked with; its messages are only the ones after the parent's answer, the first
            of them what the harness left of that answer where it echoed no more than a prefix.
        kept: Sampled ids of the parent that the prompt holds: all, but where the harness echoed a prefix.
        context_ids: ``[C]`` int32 prompt ids after those.
        prompt_length: Length of the whole prompt.
        recording: What was sampled, or what a chat backend replied; ``None`` while the engine works.
        turn: The answer as the harness gets it; ``None`` until it is read.
        written: Whether the response was fully written.
        echoed: Sampled ids that a later request held: none, all, or those of a prefix.
        echo: What the last request that held the whole answer had in its place.
        reused: Calls whose answers are part of `context_ids`.
        digests: Of the rendered blocks of `context_ids`, where requests are placed by them.
        children: Calls that continue this one.
        twins: Calls of the very same request, this one included, in the order of their start. They share the list.
    """

    index: int
    parent: "Call | None"
    request: Request
    kept: int
    context_ids: NDArray[np.int32]
    prompt_length: int
    recording: Recording | Reply | None = None
    turn: Turn | None = None
    written: bool = False
    echoed: int = 0
    echo: Message | None = None
    reused: "tuple[Call, ...]" = ()
    digests: tuple[bytes, ...] = ()
    children: "list[Call]" = field(default_factory=list)
    twins: "list[Call]" = field(default_factory=list)

    def chain(self) -> "list[Call]":
        """The calls from the root to this one."""
        calls: list[Call] = []
        call: Call | None = self
        while call is not None:
            calls.append(call)
            call = call.parent
        return calls[::-1]

    def answered(self) -> Recording:
        """What was sampled.

        Raises:
            RuntimeError: The engine has not answered. That is a bug of the gateway's and no contradiction of the
                engine's, which would be held against nobody.
        """
        if not isinstance(self.recording, Recording):
            raise RuntimeError(f"model call {self.index} was never answered by an engine")
        return self.recording

    def replied(self) -> Reply:
        """What a chat backend replied; raises as `answered` does."""
        if not isinstance(self.recording, Reply):
            raise RuntimeError(f"model call {self.index} was never answered by a chat backend")
        return self.recording

    def answers_like(self, other: "Call", request: Request) -> bool:
        """Whether both said the same, reasoning included."""
        return self is other or (
            self.turn is not None
            and other.turn is not None
            and self.turn.thought == other.turn.thought
            and same_message(self.turn.message, other.turn.message, request.tools)
        )

    @property
    def has_arrived(self) -> bool:
        """Whether the harness is known to have the answer, if only its beginning."""
        return self.written or self.echoed > 0

    @property
    def count(self) -> int:
        """Tokens of the answer.

        Raises:
            RuntimeError: There is none.
        """
        if self.recording is None:
            raise RuntimeError(f"model call {self.index} was never answered")
        return self.recording.count

    @property
    def start(self) -> int:
        """Position of the first of `context_ids` in the prompt."""
        return self.prompt_length - len(self.context_ids)

    def prompt_ids(self) -> TokenIds:
        """``[P]`` the whole prompt."""
        call, pieces = self, [self.context_ids]
        while call.parent is not None:
            ids = call.parent.answered().token_ids
            pieces += [ids if call.kept == len(ids) else ids[: call.kept], call.parent.context_ids]
            call = call.parent
        return TokenIds(np.concatenate(pieces[::-1]))

    @property
    def prompt_digest(self) -> bytes:
        """BLAKE2b of the whole prompt, 16 bytes, of which only what is new is read."""
        return self._digested.digest()

    @cached_property
    def _digested(self) -> "hashlib.blake2b":
        if self.parent is None:
            state = hashlib.blake2b(digest_size=16)
        else:
            state = self.parent._digested.copy()
            state.update(np.ascontiguousarray(self.parent.answered().token_ids[: self.kept], np.int32))
        state.update(self.context_ids)
        return state
