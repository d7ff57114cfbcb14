"""The token tree of one trial: what was sampled, after what.

Invariant: a node is one model call. Its prompt is its parent's prompt and sampled ids, verbatim, plus `context_ids`.
Answered nodes are only ever added: a request that does not continue a recorded answer starts a new branch.

Requests are matched by messages, tokens are never compared. Everything is stored as the difference to the parent, so a
trial costs memory in proportion to its tokens, however often its history was sent.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lego_rl.engine.token_ids import TokenIds
from lego_rl.errors import CaptureError
from lego_rl.gateway.matching import same_message
from lego_rl.gateway.recording import Recording
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.turn import Turn
from lego_rl.messages import Json, Message, Tool

_ITEM_CHARACTERS = 64
"""What a message, a call or a tool costs to render, in characters, however empty it is."""


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

    @property
    def least_tokens(self) -> int:
        """Tokens that its prompt has at the very least: one a message, but for system messages, which may be joined."""
        return sum(message.role != "system" for message in self.messages)


@dataclass(eq=False)
class Call:
    """A node: one model call, begun or answered.

    Attributes:
        index: Order of the start.
        parent: The call whose answer this one continues.
        request: Tools and lane it was asked with; its messages are only the ones after the parent's answer.
        context_ids: ``[C]`` int32 prompt ids after the parent's sampled ids.
        prompt_length: Length of the whole prompt.
        recording: What was sampled; ``None`` while the engine works.
        turn: The answer as the harness gets it; ``None`` until it is read.
        written: Whether the response was fully written.
        echoed: Whether a later request held the answer.
        reused: Calls whose answers are part of `context_ids`.
        digests: Of the rendered blocks of `context_ids`, where requests are placed by them.
        children: Calls that continue this one.
    """

    index: int
    parent: "Call | None"
    request: Request
    context_ids: NDArray[np.int32]
    prompt_length: int
    recording: Recording | None = None
    turn: Turn | None = None
    written: bool = False
    echoed: bool = False
    reused: "tuple[Call, ...]" = ()
    digests: tuple[bytes, ...] = ()
    children: "list[Call]" = field(default_factory=list)

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
            CaptureError: The engine has not answered.
        """
        if self.recording is None:
            raise CaptureError(
                f"model call {self.index} was never answered", "only answered calls belong in a trajectory"
            )
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
    def length(self) -> int:
        """Tokens of prompt and answer."""
        return self.prompt_length + (len(self.recording.token_ids) if self.recording else 0)

    def prompt_ids(self) -> TokenIds:
        """``[P]`` the whole prompt."""
        pieces: list[NDArray[np.int32]] = []
        for call in self.chain():
            pieces.append(call.context_ids)
            if call is not self and call.recording:
                pieces.append(call.recording.token_ids)
        return TokenIds(np.concatenate(pieces))


@dataclass(frozen=True)
class Position:
    """Where a request stands in the tree.

    Attributes:
        parent: The last call whose answer it echoes.
        request: Tools, lane and the messages after that answer.
        reused: Calls whose answers are among these messages, though not in this branch.
        blocks: The messages before, between and after the answers of `reused`.
        digests: Of the same blocks rendered, where requests are placed by them.
    """

    parent: Call | None
    request: Request
    reused: tuple[Call, ...]
    blocks: tuple[tuple[Message, ...], ...]
    digests: tuple[bytes, ...] = ()

    @property
    def known(self) -> int:
        """Tokens of the prompt that the tree holds already."""
        return self.parent.length if self.parent else 0

    @property
    def new_characters(self) -> int:
        """Characters that have to be rendered; a measure of the work, no more."""
        tools = self.request.tools if self.parent is None else ()
        return sum(map(_message_size, self.request.messages)) + sum(
            _ITEM_CHARACTERS + len(tool.description) + _size(tool.parameters) for tool in tools
        )

    def asked_by(self, call: Call) -> bool:
        """Whether `call` is of the very same request."""
        return call.parent is self.parent and call.digests == self.digests and _same_request(call.request, self.request)

    def render(self, template: ChatTemplate) -> NDArray[np.int32]:
        """``[C]`` int32 prompt ids after the parent's answer. Reads nothing that changes, so any thread may do it.

        Raises:
            TemplateError: The template refuses the conversation.
        """
        ids: list[int] = []
        after = None if self.parent is None else int(self.parent.answered().token_ids[-1])
        for block, sampled in zip(self.blocks, (*self.reused, None), strict=True):
            ids += self._render(template, block, after)
            if sampled is not None:
                ids += sampled.answered().token_ids.tolist()
                after = ids[-1]
        return np.array(ids, np.int32)

    def _render(self, template: ChatTemplate, block: Sequence[Message], after: int | None) -> list[int]:
        if after is None:
            return template.opening(block, self.request.tools)
        return template.continuation(block, after=after)


class TokenTree:
    """All calls of one trial."""

    def __init__(self) -> None:
        self._roots: list[Call] = []
        self._by_anchor: defaultdict[_Anchor, list[Call]] = defaultdict(list)
        self.begun = 0
        """Calls that were begun, and the index of the next."""
        self.calls: list[Call] = []
        """Answered calls, in the order of their start."""

    def locate(self, request: Request) -> Position:
        """Find what a request continues."""
        parent, used = self._longest_match(request)
        rest = replace(request, messages=request.messages[used:])
        blocks: list[list[Message]] = [[]]
        reused: list[Call] = []
        for message in rest.messages:
            call = self._sampled(message, request.tools) if message.role == "assistant" else None
            if call is None:
                blocks[-1].append(message)
            else:
                reused.append(call)
                blocks.append([])
        return Position(parent, rest, tuple(reused), tuple(map(tuple, blocks)))

    def echo(self, position: Position) -> None:
        """Note whose answers a request holds, whether or not it will be answered itself."""
        for call in (*(position.parent.chain() if position.parent else ()), *position.reused):
            call.echoed = True

    def begin(self, position: Position, context_ids: NDArray[np.int32]) -> Call:
        """Add the call of a request; `finish` and `read`, or `discard`, have to follow."""
        parent = position.parent
        prompt_length = (parent.length if parent else 0) + len(context_ids)
        call = Call(
            self.begun,
            parent,
            position.request,
            context_ids,
            prompt_length,
            reused=position.reused,
            digests=position.digests,
        )
        self.begun += 1
        self.siblings(parent).append(call)
        return call

    def finish(self, call: Call, recording: Recording) -> None:
        """Note the engine's answer."""
        call.recording = recording
        self.calls.append(call)
        self.calls.sort(key=lambda each: each.index)

    def read(self, call: Call, turn: Turn) -> None:
        """Note the answer as the harness gets it, so that later requests can echo it."""
        call.turn = turn
        for anchor in _anchors_of(turn.message):
            self._by_anchor[anchor].append(call)

    def discard(self, call: Call) -> None:
        """Take out a call that the engine did not answer."""
        self.siblings(call.parent).remove(call)

    def drop_routes(self) -> None:
        """Hold no routes any more: a file on the disk must not wait until calls that know each other are collected."""
        for call in self.calls:
            call.recording = replace(call.answered(), routes=None)

    def twins(self, call: Call) -> list[Call]:
        """Other calls of the very same request, in the order of their start."""
        return [
            other
            for other in self.siblings(call.parent)
            if other is not call and other.digests == call.digests and _same_request(other.request, call.request)
        ]

    @property
    def roots(self) -> Sequence[Call]:
        """First calls of every conversation, in the order of their start."""
        return self._roots

    def siblings(self, parent: Call | None) -> list[Call]:
        """Calls that continue `parent`, in the order of their start; without one, the roots."""
        return parent.children if parent else self._roots

    def sampled_turns(self, request: Request) -> dict[int, Call]:
        """The turns of a request that were sampled, by their place."""
        found = {
            at: self._sampled(message, request.tools)
            for at, message in enumerate(request.messages)
            if message.role == "assistant"
        }
        return {at: call for at, call in found.items() if call is not None}

    def _longest_match(self, request: Request) -> tuple[Call | None, int]:
        parent: Call | None = None
        used = 0
        while True:
            # The newest first: of equal answers to equal requests, the last is the one that the harness got.
            for call in reversed(self.siblings(parent)):
                end = used + len(call.request.messages)
                if _continues(call, request, used, end):
                    parent, used = call, end + 1
                    break
            else:
                return parent, used

    def _sampled(self, message: Message, tools: Sequence[Tool]) -> Call | None:
        """The call of any branch that sampled this turn: as context, it keeps the ids it was sampled with."""
        for call in reversed(self._by_anchor.get(_anchor(message), ())):
            if call.turn and same_message(call.turn.message, message, tools):
                return call
        return None


def _message_size(message: Message) -> int:
    arguments = sum(_ITEM_CHARACTERS + _size(call.arguments) for call in message.tool_calls)
    return _ITEM_CHARACTERS + len(message.content) + len(message.reasoning or "") + arguments


def _size(value: Json | Mapping[str, Json]) -> int:
    """Characters of a JSON value, roughly."""
    match value:
        case str():
            return len(value) + 1
        case list():
            return 1 + sum(map(_size, value))
        case Mapping():
            return 1 + sum(len(key) + _size(inner) for key, inner in value.items())
        case _:
            return 1


type _Anchor = tuple[str, ...]


def _anchor(message: Message) -> _Anchor:
    """The key under which an assistant's turn is found again: its first call's id, else its text and reasoning.

    It leaves few calls to be compared, whatever a harness sends: a search must not hold up the other trials.
    """
    if message.tool_calls:
        return ("call", message.tool_calls[0].id)
    return ("text", message.content.strip(), (message.reasoning or "").strip())


def _anchors_of(turn: Message) -> Iterable[_Anchor]:
    """The keys of a sampled turn: its reasoning may be left out of its echo. A turn that says nothing has none."""
    if not turn.tool_calls and not turn.content.strip():
        return ()
    return {_anchor(turn), _anchor(replace(turn, reasoning=None))}


def _continues(call: Call, request: Request, start: int, end: int) -> bool:
    """Whether the request holds the call's own messages at ``[start, end)`` and its answer at ``end``."""
    if (
        call.turn is None
        or end >= len(request.messages)
        or (call.parent is None and call.request.tools != request.tools)
    ):
        return False
    return same_message(call.turn.message, request.messages[end], request.tools) and _same_messages(
        call.request.messages, request.messages[start:end], request.tools
    )


def _same_request(known: Request, sent: Request) -> bool:
    return (
        (known.lane, known.tool_choice) == (sent.lane, sent.tool_choice)
        and known.tools == sent.tools
        and _same_messages(known.messages, sent.messages, sent.tools)
    )


def _same_messages(known: Sequence[Message], sent: Sequence[Message], tools: Sequence[Tool]) -> bool:
    return len(known) == len(sent) and all(same_message(a, b, tools) for a, b in zip(known, sent, strict=True))
