"""JSON may spell text that no encoding can hold; here it is made whole where it enters."""

import re

from lego_rl.messages import Json

_LONE = re.compile("[\ud800-\udfff]")


def without_surrogates(value: Json) -> Json:
    """The same value with U+FFFD for every lone surrogate (pairs were joined when the JSON was read)."""
    match value:
        case str():
            return _LONE.sub("\ufffd", value)
        case list():
            return [without_surrogates(item) for item in value]
        case dict():
            return {_LONE.sub("\ufffd", key): without_surrogates(item) for key, item in value.items()}
        case _:
            return value
