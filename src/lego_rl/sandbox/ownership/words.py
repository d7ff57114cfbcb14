"""Words of a text that could be paths."""

import re
from collections.abc import Iterator

_WORD = re.compile(r"[\w.+-]+(?:/[\w.+-]+)*")


def path_words(text: str) -> Iterator[str]:
    """What could be a path relative to any folder, without what leads up."""
    for word in _WORD.findall(text):
        plain = "/".join(part for part in word.split("/") if part not in (".", ".."))
        yield plain.rstrip(".")
