"""A long conversation of a coding agent: what the benchmark sends, and what the policy says in it.

Invariant: the same Python and the same policy give the same conversation. Its text is real: tool results are source
files of the standard library, thoughts are its documentation; no passage comes twice, so nothing is easier to find
again or to compress than in a run that reads new files all the time.
"""

import json
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from lego_rl.gateway.encoding import Encoder
from lego_rl.messages import Json, Tool

_RESERVE = 25
"""Tokens that come round a tool result, and that its text gains when it is tokenised again, roughly."""


@dataclass(frozen=True)
class Shape:
    """Size of a conversation.

    Attributes:
        turns: Model calls.
        first: Tokens of the first prompt, roughly.
        total: Tokens at the end, roughly.
        sampled: Tokens that the policy samples over all turns.
    """

    turns: int = 200
    first: int = 12_000
    total: int = 200_000
    sampled: int = 46_000

    @classmethod
    def of(cls, turns: int) -> "Shape":
        """A shorter or longer one: what a turn adds is the same, what comes before the first too."""
        whole = cls()
        added = (whole.total - whole.first) // whole.turns
        return cls(turns, whole.first, whole.first + turns * added, whole.sampled // whole.turns * turns)


@dataclass(frozen=True)
class Conversation:
    """What is said.

    Attributes:
        system: The system prompt.
        task: The first message.
        tools: Tools offered.
        replies: What the policy samples in each turn: ``[T]`` int32.
        results: What the tool answers after each turn.
    """

    system: str
    task: str
    tools: tuple[Tool, ...]
    replies: tuple[NDArray[np.int32], ...]
    results: tuple[str, ...]


def conversation(policy: Path, shape: Shape) -> Conversation:
    """Make a conversation of `shape`, in the tokens of the ``tokenizer.json`` in `policy`."""
    encoder = Encoder((policy / "tokenizer.json").read_text(encoding="utf-8"))
    prose, code = _Reader(encoder, _documentation()), _Reader(encoder, _sources())
    each = shape.sampled // shape.turns
    context = (shape.total - shape.first - shape.sampled) // shape.turns - _RESERVE
    return Conversation(
        system=prose.take(shape.first * 2 // 3),
        task="Mend what the failing tests name, then run them again.\n" + prose.take(200),
        tools=_tools(prose, shape.first // 3),
        replies=tuple(_reply(encoder, prose, code, each) for _ in range(shape.turns)),
        results=tuple(code.take(context) for _ in range(shape.turns)),
    )


def _reply(encoder: Encoder, prose: "_Reader", code: "_Reader", count: int) -> NDArray[np.int32]:
    """Thoughts and one call, `count` tokens in all."""
    command = code.take(count // 3).replace("</parameter>", "")
    call = f"<tool_call>\n<function=bash>\n<parameter=command>\n{command}\n</parameter>\n</function>\n</tool_call>"
    end = encoder.encode(f"\n</think>\n\nI look further.\n\n{call}<|im_end|>")
    return np.array([*encoder.encode(prose.take(count))[: count - len(end)], *end], np.int32)


def _tools(prose: "_Reader", tokens: int) -> tuple[Tool, ...]:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"command": {"type": "string", "description": prose.take(tokens // 20)}},
        "required": ["command"],
    }
    return tuple(Tool(name, prose.take(tokens // 11), schema) for name in ("bash", *(f"tool_{n}" for n in range(9))))


class _Reader:
    """Reads a text from its beginning to its end, a number of tokens at a time."""

    def __init__(self, encoder: Encoder, text: Iterator[str]) -> None:
        self._encoder = encoder
        self._text = text
        self._ids: list[int] = []

    def take(self, count: int) -> str:
        """The next text of about `count` tokens."""
        while len(self._ids) < count:
            self._ids += self._encoder.encode(self._encoder.quote(next(self._text)))
        taken = self._ids[:count]
        del self._ids[:count]
        return self._encoder.decode(taken)


def _documentation() -> Iterator[str]:
    while True:
        for name in sorted(topics):
            yield topics[name]


def _sources() -> Iterator[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    while True:
        for path in sorted(folder.glob("*.py")):
            yield path.read_text(encoding="utf-8", errors="replace")


def wire_form(said: Conversation) -> str:
    """What the client process needs to know, as JSON."""
    tools = [
        {"name": tool.name, "description": tool.description, "schema": dict(tool.parameters)} for tool in said.tools
    ]
    return json.dumps({"system": said.system, "task": said.task, "tools": tools, "results": list(said.results)})
