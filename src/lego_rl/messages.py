"""The neutral conversation: what every wire dialect is translated to and from.

It knows no wire format and no tokens. Text is kept byte for byte as it was received.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

type Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""A value that JSON can hold."""

type Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks in a `Message`."""


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool by the assistant.

    Attributes:
        id: Unique within a session.
        name: The tool's name as the harness declared it.
        arguments: Parsed arguments, in the order in which they were sampled.
    """

    id: str
    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        content: The text; what a dialect sends as a list of text parts is joined without a separator.
        tool_calls: Calls made by an assistant, in order.
        tool_call_id: For role ``tool``: the call that this is the result of.
        reasoning: An assistant's thinking, without its tags; ``None`` where the harness sent none.
        omitted: What the message held that a text model cannot see (``image``, ``audio``, ``file`` …), in order; the
            content names each in its place.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool that the harness offers: its name, description and JSON schema of the parameters."""

    name: str
    description: str
    parameters: Mapping[str, Json] = field(default_factory=dict)


def as_templates_take(messages: Sequence[Message]) -> Iterator[Message]:
    """A conversation as the chat templates of open models take it: one system message, and that at the start.

    Harnesses send several (system blocks, reminders). Those at the start are joined by an empty line; a later one is
    the user's.
    """
    opening = [*takewhile(lambda message: message.role == "system", messages)]
    if opening:
        yield Message("system", "\n\n".join(message.content for message in opening))
    yield from map(as_users, messages[len(opening) :])


def as_users(message: Message) -> Message:
    """What a message is within a conversation: a system's is the user's, any other is what it was."""
    return Message("user", message.content) if message.role == "system" else message
