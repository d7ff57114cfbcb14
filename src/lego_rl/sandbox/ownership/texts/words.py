"""Words of a text: what could be paths, and what could be names.

Invariant: a text is read once, in a time that grows with its length, however many words are looked for.
"""

import re
from collections.abc import Collection, Iterable, Iterator

_PATH = re.compile(r"[\w.+-]+(?:/[\w.+-]+)*")
_WORD = re.compile(rb"[\w\x80-\xff]+")
"""Of bytes, since a name need be no text; the letters of every other alphabet are beyond ASCII."""


def path_words(text: str) -> Iterator[str]:
    """What could be a path relative to any folder, without what leads up."""
    for word in _PATH.findall(text):
        plain = "/".join(part for part in word.split("/") if part not in (".", ".."))
        yield plain.rstrip(".")


def words_of(text: bytes) -> frozenset[bytes]:
    """What could be a name in a program."""
    return frozenset(_WORD.findall(text))


class WordIndex:
    """Which of some texts have a word in them."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        """Read each text once.

        Args:
            texts: In an order by which they are told apart.
        """
        self._having: dict[bytes, list[int]] = {}
        self._texts = 0
        for at, text in enumerate(texts):
            self._texts = at + 1
            for word in words_of(text):
                self._having.setdefault(word, []).append(at)

    def having(self, words: Collection[bytes]) -> list[int]:
        """Numbers of the texts that have all of some words."""
        found = sorted((self._having.get(word, []) for word in words), key=len) or [list(range(self._texts))]
        return sorted(set(found[0]).intersection(*found[1:])) if found[0] else []
