"""Python in the text of a shell: what ``python -c``, a here-document or an ``echo`` into it gives to an interpreter.

Invariant: a text is Python if Python can read it, whoever it is given to. So no way to write the interpreter's name
hides one, and what is none says nothing (`PythonWords`).
"""

import re
import textwrap
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise

from lego_rl.sandbox.ownership.run.command_words import Statement

MAX_NESTED = 4
"""How deep a quoted text is searched for others."""
MAX_TEXTS, MAX_CHARACTERS = 2_000, 1 << 20
"""Of those in one text, all levels together: a script has few, and each stands in it once."""

_QUOTED = r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")"""
_GIVEN = re.compile(rf"(?:(?<!\S)-[A-Za-z]*c|<<<|\becho|\bprintf)[ \t]*\$?{_QUOTED}", re.DOTALL)
_DOCUMENT = re.compile(r"""<<-?[ \t]*\\?(['"]?)([A-Za-z_]\w*)\1""")
_ESCAPED = re.compile(r"\\([\"\\$`])")
_OPTION = re.compile(r"-[A-Za-z]*c")
_SHEBANG = re.compile(rb"#!.*\b(?:python|pypy)[0-9.]*\b")


def is_python(path: str, text: bytes) -> bool:
    """Whether a file is a Python program by its name, or by the interpreter that it names itself."""
    return path.endswith(".py") or _SHEBANG.match(text) is not None


def python_texts(text: str) -> Iterator[bytes]:
    """What of a script, a command line or the recipes of a Makefile may be Python, the outermost first."""
    waiting, texts, room = deque([(text, MAX_NESTED)]), MAX_TEXTS, MAX_CHARACTERS
    while waiting:
        outer, nested = waiting.popleft()
        for inner in chain(_given(outer), _documents(outer)):
            texts, room = texts - 1, room - len(inner)
            if texts < 0 or room < 0:
                return
            yield textwrap.dedent(inner).strip().encode(errors="replace")
            if nested:
                waiting.append((inner, nested - 1))


def _given(text: str) -> Iterator[str]:
    """Quoted texts that are given to a program."""
    for found in _GIVEN.finditer(text):
        yield found[1] if found[1] is not None else _ESCAPED.sub(r"\1", found[2])


def _documents(text: str) -> Iterator[str]:
    """Here-documents, each up to the first line that is its word."""
    lines = text.splitlines()
    ends: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(at)
    for at, line in enumerate(lines):
        for found in _DOCUMENT.finditer(line):
            after = ends.get(found[2], [])
            end = bisect_right(after, at)
            if end < len(after):
                yield "\n".join(lines[at + 1 : after[end]])


def given_to_python(words: Statement) -> Iterator[bytes]:
    """The texts after ``-c`` among the words of a command, where variables are filled in."""
    for before, word in pairwise(words):
        if _OPTION.fullmatch(before):
            yield textwrap.dedent(word).strip().encode(errors="replace")
