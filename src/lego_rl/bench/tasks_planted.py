"""Copies of an issue or a patch that somebody changed, by how much: what near-duplicate rules are measured with."""

import keyword
import random
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

from lego_rl.bench.tasks_corpus import Hunk, Issue, patch_text
from lego_rl.bench.tasks_words import TEMPLATES, Language, Repository, spelt

_WORD = re.compile(r"[A-Za-z_]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEPT = frozenset(
    keyword.kwlist  # what a change of names leaves alone
)


def words_replaced(share: float) -> Callable[[random.Random, Issue, Repository], str]:
    """Every word, in prose and in code, is another one with a chance of `share`."""

    def change(draw: random.Random, issue: Issue, repository: Repository) -> str:
        return _WORD.sub(lambda word: _other(draw, repository) if draw.random() < share else word[0], issue.text())

    return change


def reposted(draw: random.Random, issue: Issue, repository: Repository) -> str:
    """Word for word, without markup, and in other lines."""
    return textwrap.fill(issue.text().replace("`", "").replace("#", ""), 72)


def wrapped(draw: random.Random, issue: Issue, repository: Repository) -> str:
    """Under another heading, with other lines, a greeting and a footer."""
    head = "You are working on a repository. Solve this issue:\n\n<issue>\n"
    return f"{head}{textwrap.fill(issue.text().upper(), 60)}\n</issue>\n\nMake the smallest change that solves it."


def moved(draw: random.Random, issue: Issue, repository: Repository) -> str:
    """Sentences in another order, under another template."""
    sentences = tuple(draw.sample(issue.sentences, len(issue.sentences)))
    return replace(issue, sentences=sentences, template=draw.choice(TEMPLATES)).text()


def without_code(draw: random.Random, issue: Issue, repository: Repository) -> str:
    """Without code, traceback and versions."""
    return replace(issue, blocks=(), versions="").text()


def half(draw: random.Random, issue: Issue, repository: Repository) -> str:
    """Every other sentence, without code."""
    return replace(issue, sentences=issue.sentences[::2], blocks=(), versions="").text()


def edited(share: float) -> Callable[[random.Random, Issue, Repository], str]:
    """All at once: moved, without code, and words replaced."""

    def change(draw: random.Random, issue: Issue, repository: Repository) -> str:
        cut = replace(
            issue, sentences=tuple(draw.sample(issue.sentences, len(issue.sentences))), blocks=(), versions=""
        )
        return words_replaced(share)(draw, replace(cut, template=draw.choice(TEMPLATES)), repository)

    return change


ISSUES: Mapping[str, Callable[[random.Random, Issue, Repository], str]] = {
    "reposted": reposted,
    "wrapped": wrapped,
    "moved": moved,
    "without code": without_code,
    "half": half,
    "10 % of words": words_replaced(0.1),
    "20 % of words": words_replaced(0.2),
    "30 % of words": words_replaced(0.3),
    "40 % of words": words_replaced(0.4),
    "50 % of words": words_replaced(0.5),
    "moved, cut, 10 %": edited(0.1),
    "moved, cut, 20 %": edited(0.2),
    "moved, cut, 30 %": edited(0.3),
    "rewritten": words_replaced(0.8),
}
"""Strength → how an issue is changed."""


def reapplied(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
    """In another version of the files: other lines around it, other line numbers."""
    return patch_text(tuple(_elsewhere(draw, hunk, repository) for hunk in hunks))


def reversed_patch(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
    """The other way round: what makes the bug."""
    return patch_text(tuple(replace(hunk, removed=hunk.added, added=hunk.removed) for hunk in hunks))


def indented(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
    """At another depth, and with tabs."""
    return patch_text(
        tuple(
            replace(
                hunk,
                removed=tuple("\t" + line.replace("    ", "\t") for line in hunk.removed),
                added=tuple("\t" + line.replace("    ", "\t") for line in hunk.added),
            )
            for hunk in hunks
        )
    )


def commented(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
    """With a comment and a line more in every place, in another version of the files."""
    more = [replace(hunk, added=("    # why this is done", *hunk.added, "    pass")) for hunk in hunks]
    return reapplied(draw, tuple(more), repository)


def part(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
    """Without its smallest place, where there is more than one, in another version of the files."""
    largest = sorted(hunks, key=lambda hunk: -len(hunk.added) - len(hunk.removed))
    return reapplied(draw, tuple(largest[: max(1, len(hunks) - 1)]), repository)


def renamed(share: float) -> Callable[[random.Random, tuple[Hunk, ...], Repository], str]:
    """Some names are others, throughout, in another version of the files."""

    def change(draw: random.Random, hunks: tuple[Hunk, ...], repository: Repository) -> str:
        text = reapplied(draw, hunks, repository)
        names = sorted(set(_NAME.findall(text)) - _KEPT)
        others = {name: spelt(draw) if draw.random() < share else name for name in names}
        return _NAME.sub(lambda name: others.get(name[0], name[0]), text)

    return change


PATCHES: Mapping[str, Callable[[random.Random, tuple[Hunk, ...], Repository], str]] = {
    "reapplied": reapplied,
    "reversed": reversed_patch,
    "indented": indented,
    "commented": commented,
    "in part": part,
    "10 % of names": renamed(0.1),
    "20 % of names": renamed(0.2),
    "30 % of names": renamed(0.3),
    "40 % of names": renamed(0.4),
    "60 % of names": renamed(0.6),
    "all names": renamed(1.0),
}
"""Strength → how a patch is changed."""


def _other(draw: random.Random, repository: Repository) -> str:
    language: Language = repository.language
    return draw.choices(language.words, cum_weights=language.weights)[0]


def _elsewhere(draw: random.Random, hunk: Hunk, repository: Repository) -> Hunk:
    lines = tuple(f"    {name} = {name}" for name in repository.draw_names(draw, 6))
    return replace(hunk, line=draw.randint(1, 1500), before=lines[:3], after=lines[3:])
