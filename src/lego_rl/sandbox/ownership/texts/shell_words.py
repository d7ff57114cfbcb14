"""The words of shell text as a shell would see them, without running anything: programs, paths, assignments.

Invariant: what cannot be read as shell is still split into words. A word too many costs little, one that is missed may
be the script that runs the tests. So what is nested deeper than anybody writes by hand, or stands in a line that is
longer, is read without quotes and brackets: in a time that grows with the text, and no word of it is lost.
"""

import re
import shlex
from collections.abc import Iterator

MAX_NESTED = 4
"""How deep a command within a quoted word of a command is read."""
MAX_SUBSTITUTED = 16
"""How deep commands within commands are told apart (``$(a $(b))``)."""
MAX_LINE = 20_000
"""Characters of a line that is read as a shell does, which takes a time that grows with the square of its words'."""

_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_BRACKETS = re.compile(r"\$?\(|\)|`")
_EXPANDED = "$PWD"
"""What stands for the output of a command in the text that is read on; it begins paths, as in ``$(dirname $0)/x``."""
_LEADING = re.compile(r"\$(?:\{[^{}]*\}|\([^()]*\)|\w+)(?:/|$)")
_ENDS = frozenset("();<>|&")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_WORDS = re.compile(r"[();<>|&]+|[^\s();<>|&\"'`]+")
"""What may be words where quotes say nothing."""
_RECIPE = "@-+ \t"
"""What may stand before a command in a Makefile; before one in a script only white space does."""


def without_commands(text: str) -> str:
    """A text with a folder in place of each command whose output is a part of it."""
    return list(_peeled(text))[-1]


def statements(text: str, nested: int = MAX_NESTED) -> Iterator[tuple[str, ...]]:
    """Simple commands, word by word, those within substitutions and quoted words too.

    A ``<`` is a word of them, before that of the file which a command reads.

    Args:
        text: A command line, a script or a Makefile.
        nested: How deep quoted words are read as commands of their own.
    """
    *layers, rest = _peeled(text.replace("\\\n", " "))
    for layer in layers:
        for inner in _SUBSTITUTION.findall(layer):
            yield from statements("\n".join(inner), nested)
    for line in rest.splitlines():
        if not line.lstrip().startswith("#") or line.startswith("#!"):
            yield from _of_line(line.lstrip(_RECIPE), nested)


def _peeled(text: str) -> Iterator[str]:
    """A text, each time without the innermost of its commands within commands; the last one has none."""
    yield text
    for _ in range(MAX_SUBSTITUTED):
        shorter = _SUBSTITUTION.sub(_EXPANDED, text)
        if shorter == text:
            return
        text = shorter
        yield text
    yield _BRACKETS.sub("\n", text) if _SUBSTITUTION.search(text) else text


def assignment(word: str) -> tuple[str, str] | None:
    """Name and value where a word is ``NAME=VALUE``."""
    found = _ASSIGNMENT.fullmatch(word)
    return None if found is None else (found[1], found[2])


def without_variable(path: str) -> str:
    """A path without the variable that it begins with, which is taken for the current folder: ``$ROOT/ci/x``."""
    return _LEADING.sub("", path, count=1) if _LEADING.match(path) else path


def _of_line(line: str, nested: int) -> Iterator[tuple[str, ...]]:
    words: list[str] = []
    for word in _split(line):
        if _ENDS.issuperset(word) and word != "<":
            if words:
                yield tuple(words)
            words = []
            continue
        words.append(word)
        if nested and re.search(r"[\s;|&]", word):
            yield from statements(word, nested - 1)
    if words:
        yield tuple(words)


def _split(line: str) -> list[str]:
    if len(line) > MAX_LINE:
        return _WORDS.findall(line)
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        return list(reader)
    except ValueError:  # A quote that opens here ends on another line, or is an apostrophe.
        return _WORDS.findall(line)
