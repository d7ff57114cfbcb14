"""Text that a model, a harness or a task wrote, made fit to be shown.

Invariant: nothing in it is invisible and nothing changes the direction of what follows. Markup is left as it is: the
page's template escapes it.
"""

import unicodedata
from dataclasses import dataclass

MOST_CHARS = 3_000
"""Kept of one text; the rest is in the trial's folder."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@dataclass(frozen=True)
class Text:
    """A text as shown, and how many characters were left out of it."""

    shown: str
    omitted: int = 0


def plain(text: str) -> str:
    """Show control, format and direction characters as their code points; newlines and tabs stay."""
    return "".join(f"\\u{{{ord(c):x}}}" if c not in "\n\t" and unicodedata.category(c) in _HIDDEN else c for c in text)


def cut(text: str, most: int = MOST_CHARS) -> Text:
    """The beginning of a text, made plain."""
    return Text(plain(text[:most]), max(0, len(text) - most))
