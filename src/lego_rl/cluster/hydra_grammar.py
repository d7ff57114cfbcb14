"""Hydra's grammar of overrides, as far as a recipe needs it."""

import re

type Value = bool | int | float | str | list[Value] | None
"""What a key of verl's configuration can be set to."""
type Override = tuple[str, Value]
"""A key, dotted, and its value."""
_PLAIN = re.compile(r"[A-Za-z_/][\w./:@-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"}


def hydra(value: Value) -> str:
    """A value in the grammar of Hydra's overrides."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case list():
            return f"[{','.join(map(hydra, value))}]"
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", value)  # backslashes count only before a quote
    return f"'{escaped}'"


def bare(override: str) -> str:
    """The key of an override, without what Hydra puts before it."""
    return override.partition("=")[0].lstrip("+~")
