"""JSON and TOML that somebody else may have written: whatever is wrong with a text, one exception says so.

Python's readers have more ways to give up than their own exceptions: a text nested too deeply is a `RecursionError`,
a number of more digits than Python converts a plain `ValueError`.
"""

import json
import tomllib
from typing import Any


class DocumentError(ValueError):
    """A text that is no document of its kind, or that Python's reader gives up on."""


def read_toml(text: str) -> dict[str, Any]:
    """A TOML document.

    Raises:
        DocumentError: It is none.
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(str(error)) from error


def read_json(text: str | bytes) -> Any:
    """A JSON document.

    Raises:
        DocumentError: It is none.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except ValueError as error:
        raise DocumentError(str(error)) from error
