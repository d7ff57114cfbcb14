"""TOML that anybody wrote, read in a time that grows no faster than the text.

To read a dotted key, or a table's name, takes one that grows with the square of its parts, and more on each line below.
"""

import re
import tomllib

from lego_rl.sandbox.ownership.texts.ini_texts import UnreadableError

MAX_KEY_PARTS = 24

_STRING_OR_COMMENT = re.compile(
    r"""
    "{3} (?: [^"\\] | \\. | "(?!"") )*+ (?: "{3,5} | \Z )
    | '{3} (?: [^'] | '(?!'') )*+ (?: '{3,5} | \Z )
    | " (?: [^"\\\n] | \\[^\n] )*+ "?
    | ' [^'\n]*+ '?
    | \# [^\n]*+
    """,
    re.DOTALL | re.VERBOSE,
)
"""What is not closed goes on to the end, as for TOML itself: so the text is read once, whatever is in it."""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def has_long_key(text: str) -> bool:
    """Whether a key has more than `MAX_KEY_PARTS` parts.

    Without strings and comments a row of dots is a key; what else could be one is no TOML at all.
    """
    return _LONG_KEY.search(_STRING_OR_COMMENT.sub("s", text)) is not None


def read_toml(text: str) -> dict[str, object]:
    """A TOML document.

    Raises:
        UnreadableError: It is none, or one that takes too long or is too deep to read.
    """
    if has_long_key(text):
        raise UnreadableError("a key of it is too long")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of a number of thousands of digits it is a ValueError
        raise UnreadableError(str(error)) from error
