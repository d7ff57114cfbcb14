"""JSON from outside: what it may spell and no later step could hold is stopped, or made whole, where it enters.

Invariant: a value that was read here can be encoded as UTF-8, holds finite numbers only, and nests no deeper than its
reader allowed; so whatever recurses over it, writes it down or reads it again cannot fail on it.
"""

import json
import math
import re

from lego_rl.messages import Json

VALUE_DEPTH = 64
"""Deepest nesting of one argument of a tool call."""
BODY_DEPTH = VALUE_DEPTH + 16
"""Deepest nesting of a request body: the messages around an argument take some levels of their own."""

_LONE = re.compile("[\ud800-\udfff]")
_LONE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class TooDeepError(ValueError):
    """A JSON text that nests deeper than its reader allows."""

    def __init__(self, depth: int) -> None:
        super().__init__(f"nested deeper than {depth} levels")


def read_json(text: str, *, depth: int) -> Json:
    """The value of a JSON text, with U+FFFD for every lone surrogate.

    Args:
        text: Of no more than Unicode scalar values, as a decoder gives it.
        depth: Most lists and objects inside each other.

    Raises:
        TooDeepError: It nests deeper.
        ValueError: It is no JSON, or has a number that no double can hold.
    """
    try:
        value: Json = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise TooDeepError(depth) from error
    if _is_deeper(value, depth):
        raise TooDeepError(depth)
    return _without_surrogates(value) if _LONE_ESCAPE.search(text) else value


def _is_deeper(value: Json, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [inner for each in level for inner in _inside(each)]
    return any(isinstance(each, list | dict) for each in level)


def _inside(value: Json) -> list[Json]:
    match value:
        case list():
            return value
        case dict():
            return list(value.values())
        case _:
            return []


def _without_surrogates(value: Json) -> Json:
    match value:
        case str():
            return _LONE.sub("\ufffd", value)
        case list():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {_LONE.sub("\ufffd", key): _without_surrogates(item) for key, item in value.items()}
        case _:
            return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no JSON number")
    return value
