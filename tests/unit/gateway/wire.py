"""A wire format as a client speaks it: neutral messages to a request body, and an answer back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lego_rl.messages import Json, Message, Tool

IMAGE = "iVBORw0K"
SHOWN = "[image]"
"""What stands for an image in the neutral text."""


class Wire(Protocol):
    """One wire format as a client speaks it.

    Attributes:
        path: Of the endpoint that samples, below the session.
        image: A part of a message that is an image.
    """

    @property
    def path(self) -> str: ...

    @property
    def image(self) -> Json: ...

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        """A request."""
        ...

    def answer(self, body: Mapping[str, Json]) -> Message:
        """What a client reads in an answer that is not streamed."""
        ...

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        """The same answer out of the events of a stream."""
        ...

    def heard(self, raw: bytes) -> Message:
        """What a client makes of the bytes of a whole answer."""
        ...


def parts(message: Message, text_type: str, image: Json) -> Json:
    """The content of a message: its text, or parts where it holds images."""
    if not message.omitted:
        return message.content
    pieces = message.content.split(SHOWN)
    texts: list[list[Json]] = [[{"type": text_type, "text": piece}] if piece else [] for piece in pieces]
    return [part for text in texts for part in (*text, image)][:-1]


@dataclass(frozen=True)
class Streamed:
    """A wire format as a client speaks it that asks for streams."""

    inner: Wire

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def image(self) -> Json:
        return self.inner.image

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return self.inner.body(messages, tools) | {"stream": True}

    def answer(self, body: Mapping[str, Json]) -> Message:
        return self.inner.answer(body)

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        return self.inner.put_together(events)

    def heard(self, raw: bytes) -> Message:
        lines = [line.removeprefix("data: ") for line in raw.decode().split("\n") if line.startswith("data: ")]
        return self.answer(self.put_together([json.loads(line) for line in lines if line != "[DONE]"]))
