"""What every tool-call parser takes and gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lego_rl.messages import Json, Tool


@dataclass(frozen=True)
class ParsedCall:
    """A well-formed call, not yet given an id."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class ParsedText:
    """A sampled text, read.

    Attributes:
        content: What is not a call, malformed calls included.
        calls: The well-formed calls, in order.
        well_formed: Whether every call in the text could be parsed.
    """

    content: str
    calls: tuple[ParsedCall, ...] = ()
    well_formed: bool = True


def said_between(pieces: Sequence[str]) -> str:
    """The content of a text without its calls: what stood before, between and after them.

    White space around a call belongs to the format, not to what the policy says.
    """
    first, *others = pieces
    return "\n".join(piece for piece in (first.rstrip(), *map(str.strip, others)) if piece)


class ToolCallParser(Protocol):
    """Reads the calls out of a sampled text."""

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedText:
        """Read `text`; `tools` are the ones offered, whose schemas give the arguments' types. Never raises."""
        ...
