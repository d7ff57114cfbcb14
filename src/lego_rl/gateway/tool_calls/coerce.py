"""Argument text to the JSON type that a tool's schema asks for.

A value that is not of the type, or that nests too deep to be written down, stays the text it is: the harness then
refuses the argument in its own words, which is what the policy should learn from. Where a string is one of the types a
value is that string, but for the ``null`` of a parameter that can be left out: templates write it so.
"""

from collections.abc import Mapping

from lego_rl.json_text import VALUE_DEPTH, read_json
from lego_rl.messages import Json


def coerce(text: str, schema: Json) -> Json:
    """The value of `text` under the JSON schema of one parameter (``None``, or any other value, if it has none)."""
    types = _types(schema)
    if "null" in types and text == "null":
        return None
    if "string" in types or not types:
        return text
    value = _read(text.strip())
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    return value if _type_name(value) & types else text


def _types(schema: Json) -> set[str]:
    """JSON types that a schema allows; empty where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    for union in ("anyOf", "oneOf"):
        options = schema.get(union)
        if isinstance(options, list):
            return set().union(*map(_types, options))
    allowed = schema.get("enum")
    return set().union(*map(_type_name, allowed)) if isinstance(allowed, list) else set()


def _read(text: str) -> Json:
    try:
        return read_json(text, depth=VALUE_DEPTH)
    except ValueError:
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


_TYPES: dict[type, set[str]] = {
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    str: {"string"},
    list: {"array"},
    dict: {"object"},
    type(None): {"null"},
}


def _type_name(value: Json) -> set[str]:
    """Names of the JSON types that a value belongs to."""
    return _TYPES[type(value)]
