"""The neutral conversation: what every wire dialect is translated to and from.

It knows no wire format and no tokens. Text is kept byte for byte as it was received.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
