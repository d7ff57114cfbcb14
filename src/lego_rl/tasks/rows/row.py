"""What is found in a file of rows, and the rule for what can be handed on."""

import re
from dataclasses import dataclass

MAX_ROW_BYTES = 64 << 20
"""Of a row of JSON."""
MAX_DEPTH = 100
"""Of what lies in each other in a row; Python's own ways of handing a value on end at some hundreds."""
_ID = re.compile(rb'"instance_id"\s*:\s*"([^"\\\x00-\x1f]{1,300})"')


@dataclass(frozen=True)
class Unread:
    """A row that is none.

    Attributes:
        reason: Why, in words that can follow ``the row:``.
        instance: Its id, as far as that can be told.
    """

    reason: str
    instance: str = ""


@dataclass(frozen=True)
class Found:
    """A row, and where it stands.

    Attributes:
        place: ``FILE:NUMBER``, counted from 1: its line in JSON lines, blank ones counted, else its row in the file.
        row: What it holds: an object, or whatever else stands in its place.
    """

    place: str
    row: object | Unread


def bearable(row: object, instance: str = "") -> object | Unread:
    """A row as it is, unless it is nested too deep to be handed on."""
    level = [row]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return row
    return Unread(f"it is nested more than {MAX_DEPTH} deep", instance or id_in(row))


def id_in(row: object) -> str:
    """The id of a row that has one in plain sight."""
    value = row.get("instance_id") if isinstance(row, dict) else None
    return value[:300] if isinstance(value, str) else ""


def id_in_text(text: bytes) -> str:
    """The id of a row whose JSON cannot be read."""
    found = _ID.search(text)
    return found[1].decode(errors="replace") if found else ""


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
