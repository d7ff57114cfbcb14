"""Where a request stands in the token tree, and what has to be rendered of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from lego_rl.gateway.call import Call, Request
from lego_rl.messages import Json, Message

_ITEM_CHARACTERS = 64
"""What a message, a call or a tool costs to render, in characters, however empty it is."""


@dataclass(frozen=True)
class Position:
    """Where a request stands in the tree.

    Attributes:
        parent: The last call whose answer it echoes.
        kept: Sampled ids of that answer that it holds: all, but where the harness echoed a prefix.
        request: Tools, lane and the messages after that answer, or from the echo of its prefix on.
        reused: Calls whose answers are among these messages, though not in this branch.
        blocks: The messages before, between and after the answers of `reused`, where requests are placed by messages.
        digests: Of these blocks rendered, where requests are placed by what is rendered.
    """

    parent: Call | None
    kept: int
    request: Request
    reused: tuple[Call, ...]
    blocks: tuple[tuple[Message, ...], ...] = ()
    digests: tuple[bytes, ...] = ()

    @property
    def known(self) -> int:
        """Tokens of the prompt that the tree holds already."""
        return self.parent.prompt_length + self.kept if self.parent else 0

    @property
    def last_known(self) -> int | None:
        """Id of the last of these tokens, a sampled one; ``None`` at a start."""
        return None if self.parent is None else int(self.parent.answered().token_ids[self.kept - 1])

    @property
    def leaves_out_calls(self) -> bool:
        """Whether it holds the whole text of the parent's answer, without the calls in it."""
        if self.parent is None or self.parent.turn is None or self.kept == self.parent.count:
            return False
        return self.parent.turn.message.content.strip() == self.request.messages[0].content.strip()

    @property
    def new_characters(self) -> int:
        """Characters that have to be rendered; a measure of the work, no more."""
        tools = self.request.tools if self.parent is None else ()
        return sum(map(_message_size, self.request.messages)) + sum(
            _ITEM_CHARACTERS + len(tool.description) + _size(tool.parameters) for tool in tools
        )

    def asked_by(self, call: Call) -> bool:
        """Whether `call` is of the very same request."""
        return (
            call.parent is self.parent
            and call.kept == self.kept
            and call.digests == self.digests
            and self.request.is_again(call.request)
        )


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
