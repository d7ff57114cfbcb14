"""Texts for a page: plain, and no longer than somebody reads. Markup stays: the page's template escapes it."""

from dataclasses import dataclass

from lego_rl.plain_text import plain

MOST_CHARS = 3_000
"""Kept of one text; the rest is in the trial's folder."""


@dataclass(frozen=True)
class Text:
    """A text as shown, and how many characters were left out of it."""

    shown: str
    omitted: int = 0


def cut(text: str, most: int = MOST_CHARS) -> Text:
    """The beginning of a text, made plain."""
    return Text(plain(text[:most]), max(0, len(text) - most))
