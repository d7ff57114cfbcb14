"""Reading JSON that a harness sent: a wrong type is the sender's fault and is named by its place."""

from collections.abc import Mapping, Sequence

from lego_rl.gateway.dialects.base import BadRequest
from lego_rl.messages import Json


def as_object(value: Json, where: str) -> Mapping[str, Json]:
    """`value` as an object, or `BadRequest`."""
    if not isinstance(value, dict):
        raise BadRequest(f"{where}: expected an object")
    return value


def as_list(value: Json, where: str) -> list[Json]:
    """`value` as a list, or `BadRequest`."""
    if not isinstance(value, list):
        raise BadRequest(f"{where}: expected a list")
    return value


def as_text(value: Json, where: str) -> str:
    """`value` as a string, or `BadRequest`."""
    if not isinstance(value, str):
        raise BadRequest(f"{where}: expected a string")
    return value


def optional_text(value: Json, where: str) -> str:
    """`value` as a string, empty where it is absent."""
    return "" if value is None else as_text(value, where)


_UNSEEN = {"image_url": "image", "input_audio": "audio", "document": "file"}
"""Protocols' names for what a text model cannot see, where they are not the common ones."""


def text_of(parts: Sequence[Mapping[str, Json]], where: str) -> str:
    """Text parts joined; a part that a text model cannot see is named in its place, the same in every protocol."""
    pieces = []
    for part in parts:
        kind = as_text(part.get("type"), f"{where}.type")
        seen = kind == "text"
        pieces.append(as_text(part.get("text"), f"{where}.text") if seen else f"[{_UNSEEN.get(kind, kind)}]")
    return "".join(pieces)


def as_flag(value: Json, where: str) -> bool:
    """`value` as a boolean, false where it is absent."""
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{where}: expected true or false")
    return bool(value)
