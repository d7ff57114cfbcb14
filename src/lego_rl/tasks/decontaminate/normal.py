"""Texts and patches without what changes when they are posted again: markup, layout, the direction of a change.

Invariant: a digest is of the words of an issue, or of the lines that a patch changes, and of nothing else. What is too
short to mean one thing only has none.
"""

import hashlib
import re
import unicodedata

LEAST_WORDS = 8
"""Words of an issue text below which an equal text says nothing."""

LEAST_TOKENS = 8
"""Tokens of changed lines below which an equal change says nothing: ``-import os`` is in many patches."""

_INVISIBLE = frozenset({"Cf", "Mn", "Me", "Mc"})

_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_FILE_LINES = re.compile(r"^--- .*\n\+\+\+ .*$", re.MULTILINE)


LOOK_ALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχ",
    "ABESIJKMHOPCTYXaesijopcyxhdqwABEZHIKMNOPTYXaikvopux",
)
"""Cyrillic and Greek letters that look like Latin ones, and those."""


def plain_letters(text: str) -> str:
    """A text without what makes the same letters other characters: widths, ligatures, accents, invisible signs, and
    letters of other scripts that look alike."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    return "".join(each for each in plain if unicodedata.category(each) not in _INVISIBLE).translate(LOOK_ALIKES)


def issue_digest(text: str) -> str | None:
    """SHA-256 of the words of an issue text; ``None`` where there are fewer than `LEAST_WORDS`."""
    words = _WORD.findall(plain_letters(text).casefold())
    return _digest(" ".join(words)) if len(words) >= LEAST_WORDS else None


def patch_digest(patch: str) -> str | None:
    """SHA-256 of what a unified diff takes out and puts in, either way round.

    The lines around a change, line numbers, file names and white space do not count, nor does the direction: a patch
    that makes a bug and the one that mends it have one digest. ``None`` where there are fewer than `LEAST_TOKENS`.
    """
    sides: dict[str, list[str]] = {"-": [], "+": []}
    for line in _FILE_LINES.sub("", plain_letters(patch)).splitlines():
        if line[:1] in sides:
            sides[line[0]] += _TOKEN.findall(line[1:])
    if sum(map(len, sides.values())) < LEAST_TOKENS:
        return None
    return _digest("\n".join(sorted(" ".join(side) for side in sides.values())))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
