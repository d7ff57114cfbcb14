"""Reading JSON that a harness sent: a wrong type is the sender's fault and is named by its place."""

from collections.abc import Mapping

from lego_rl.gateway.dialects.base import BadRequest
from lego_rl.messages import Json


def as_object(value: Json, where: str) -> Mapping[str, Json]:
    """`value` as an object, or `BadRequest`."""
    if not isinstance(value, dict):
        raise BadRequest(where, "expected an object")
    return value


def as_list(value: Json, where: str) -> list[Json]:
    """`value` as a list, or `BadRequest`."""
    if not isinstance(value, list):
        raise BadRequest(where, "expected a list")
    return value


def as_text(value: Json, where: str) -> str:
    """`value` as a string, or `BadRequest`."""
    if not isinstance(value, str):
        raise BadRequest(where, "expected a string")
    return value


def optional_list(value: Json, where: str) -> list[Json]:
    """`value` as a list, empty where it is absent."""
    return [] if value is None else as_list(value, where)


def optional_text(value: Json, where: str) -> str:
    """`value` as a string, empty where it is absent."""
    return "" if value is None else as_text(value, where)


def optional_object(value: Json, where: str) -> Mapping[str, Json]:
    """`value` as an object, empty where it is absent."""
    return {} if value is None else as_object(value, where)


def as_flag(value: Json, where: str) -> bool:
    """`value` as a boolean, false where it is absent, or `BadRequest`."""
    if value is None or isinstance(value, bool):
        return value is True
    raise BadRequest(where, "expected true or false")
