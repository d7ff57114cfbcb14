"""What a change log says anew, entry by entry, and which entries belong to some tests."""

import re
from collections.abc import Collection

from lego_rl.tasks.make.tree import Step, Tree

MOST_ENTRIES = 3
LEAST_WORDS = 2
"""That an entry shares with some tests before it belongs to them."""
LONGEST = 400
"""Characters of an entry."""

_NAMES = re.compile(r"(docs/(source/)?)?(changes|changelog|history|news|releases?|versions)(\.(md|rst|txt))?", re.I)
_README = re.compile(r"readme(\.(md|rst|txt))?", re.I)
_OF_A_VERSION = re.compile(r"^[*-]\s+v?\d+\.\d")
"""How an entry begins in a readme that has the change log in it."""
_BULLET = re.compile(r"^(?P<indent>\s*)([*+-]|\d+[.)])\s+(?P<text>\S.*)$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_COMMON = frozenset(
    "test tests with from that this when have been were will into than then them they self case cases some only also "  # noqa: SIM905
    "support supports value values error errors none true false raise raises added fixed removed change changed using "
    "used return returns python version function functions class method methods default".split()
)


def new_entries(step: Step) -> list[str]:
    """The entries that the later state's change log has and the earlier one's has not, in their order."""
    before = {line.strip() for line in _lines(step.before)}
    entries: list[tuple[int, list[str]]] = []
    open_ = False
    for line in _lines(step.after):
        bullet = _BULLET.match(line)
        if bullet and line.strip() not in before:
            entries.append((len(bullet["indent"]), [bullet["text"]]))
            open_ = True
        elif open_ and line.strip() and not bullet and len(line) - len(line.lstrip()) > entries[-1][0]:
            entries[-1][1].append(line.strip())
        else:
            open_ = False
    return [text for _, lines in entries if 15 <= len(text := _plain(" ".join(lines))) <= LONGEST]


def entries_for(entries: list[str], words: Collection[str]) -> list[str]:
    """The entries that share the most telling words with some tests and what they call.

    Args:
        entries: Of a change log.
        words: Names of the tests, of what they call, of what is changed.
    """
    wanted = {part for word in words for part in _parts(word)}
    scored = [(len(wanted & _words(entry)), entry) for entry in entries]
    least = max(LEAST_WORDS, max((score for score, _ in scored), default=0) - 1)
    return [entry for score, entry in scored if score >= least][:MOST_ENTRIES]


def _lines(tree: Tree) -> list[str]:
    found = []
    for path in sorted(tree.files):
        if (text := tree.text(path)) is None:
            continue
        if _NAMES.fullmatch(path):
            found += text.splitlines()
        elif _README.fullmatch(path):
            found += [line for line in text.splitlines() if _OF_A_VERSION.match(line)]
    return found


def _words(entry: str) -> set[str]:
    return {part for word in _WORD.findall(entry) for part in _parts(word)}


def _parts(word: str) -> set[str]:
    """A name, and the words that it is put together of."""
    pieces = re.findall(r"[A-Z]?[a-z0-9]{4,}|[A-Z]{4,}", word)
    return {part.lower() for part in (word, *pieces) if len(part) >= 4} - _COMMON


def _plain(text: str) -> str:
    """An entry without its markup of links and roles."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text)
    text = re.sub(r"`([^`<]+?)\s*<[^`>]*>`_+", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(text.replace("``", "`").split())
