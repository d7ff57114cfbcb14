"""Reading JSON that a harness sent: a wrong type is the sender's fault and is named by its place."""

from collections.abc import Callable, Mapping, Sequence

from lego_rl.gateway.body import Known, once
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


def each_once[T](make: Callable[[Mapping[str, Json], str], T], values: Sequence[Json], where: str) -> list[T]:
    """What `once` makes of each value, or `BadRequest` where one is no object.

    Args:
        make: See `once`.
        values: Of which hardly any is new: a long conversation makes hundreds of thousands of them in a trial.
        where: Place of a value, with ``{}`` for its index.
    """
    made: list[T] = []
    for index, value in enumerate(values):
        if isinstance(value, Known) and value.made[0] is make:
            made.append(value.made[1])
        else:
            place = where.format(index)
            made.append(once(make, as_object(value, place), place))
    return made
