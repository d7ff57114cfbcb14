"""The parts of a message's content: text is joined, and what a text model cannot see is named in its place.

Invariant: the same parts give the same text in every protocol, whatever it calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lego_rl.gateway.dialects.base import BadRequest
from lego_rl.gateway.dialects.fields import as_object, as_text
from lego_rl.messages import Json

_TEXT = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "tool_reference": "tool_name",
}
"""Kinds of parts that are text → the key that holds it. By tool references, Claude Code's search names its finds."""

_OMITTED = {
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "document": "file",
    "input_file": "file",
}
"""Protocols' names for what a text model cannot see, where they are not the common ones."""


@dataclass(frozen=True)
class Said:
    """Content, read.

    Attributes:
        text: All text, and in its place the name of everything else.
        omitted: What a text model cannot see, in order.
    """

    text: str
    omitted: tuple[str, ...] = ()


def said(content: Json, where: str) -> Said:
    """Content that is a text, a list of parts, or absent."""
    match content:
        case None:
            return Said("")
        case str():
            return Said(content)
        case list():
            return said_in([as_object(part, where) for part in content], where)
        case _:
            raise BadRequest(where, "expected a string or a list")


def said_in(parts: Sequence[Mapping[str, Json]], where: str) -> Said:
    """Parts that were read already."""
    pieces, omitted = [], []
    for part in parts:
        kind = as_text(part.get("type"), f"{where}.type")
        if kind in _TEXT:
            pieces.append(as_text(part.get(_TEXT[kind]), f"{where}.{_TEXT[kind]}"))
        else:
            omitted.append(_OMITTED.get(kind, kind))
            pieces.append(f"[{omitted[-1]}]")
    return Said("".join(pieces), tuple(omitted))
