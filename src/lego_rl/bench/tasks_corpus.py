"""A made-up pool as large as a real one: issues of about 1.5 kB and patches of about 2 kB of thousands of repositories.

Invariant: the same seed gives the same texts, and none of two issues is made from the other. What two of them share
is what real ones share: `bench.tasks_words`.
"""

import random
from dataclasses import dataclass

from lego_rl.bench.tasks_words import ERRORS, FRAMES, IDIOMS, PHRASES, VERSIONS, Language, Repository

_ISSUE_WORDS = 130


@dataclass(frozen=True)
class Issue:
    """An issue in its parts.

    Attributes:
        title: One line.
        sentences: Prose.
        blocks: Code and tracebacks.
        template: Headings that the repository asks for.
        versions: What was installed.
    """

    title: str
    sentences: tuple[str, ...]
    blocks: tuple[str, ...]
    template: tuple[str, ...]
    versions: str

    def text(self) -> str:
        """As it is posted."""
        parts = [self.title]
        cut = [len(self.sentences) * number // len(self.template) for number in range(len(self.template) + 1)]
        for number, heading in enumerate(self.template):
            parts += [heading, " ".join(self.sentences[cut[number] : cut[number + 1]])]
            if number < len(self.blocks):
                parts.append(f"```python\n{self.blocks[number]}\n```")
        return "\n\n".join(part for part in [*parts, self.versions] if part)


@dataclass(frozen=True)
class Hunk:
    """A change of a file.

    Attributes:
        path: The file.
        line: Where.
        before: Lines of context.
        removed: Lines that are taken out.
        added: Lines that are put in.
        after: Lines of context.
    """

    path: str
    line: int
    before: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    after: tuple[str, ...]


def patch_text(hunks: tuple[Hunk, ...]) -> str:
    """A unified diff."""
    lines: list[str] = []
    for hunk in hunks:
        around = len(hunk.before) + len(hunk.after)
        old, new = around + len(hunk.removed), around + len(hunk.added)
        lines += [f"diff --git a/{hunk.path} b/{hunk.path}", f"--- a/{hunk.path}", f"+++ b/{hunk.path}"]
        lines += [f"@@ -{hunk.line},{old} +{hunk.line},{new} @@", *(f" {line}" for line in hunk.before)]
        lines += [*(f"-{line}" for line in hunk.removed), *(f"+{line}" for line in hunk.added)]
        lines += [f" {line}" for line in hunk.after]
    return "\n".join(lines) + "\n"


def issue(draw: random.Random, repository: Repository) -> Issue:
    """An issue of a repository."""
    version = VERSIONS[draw.randrange(len(VERSIONS))].format(
        draw.randint(6, 9), draw.randint(0, 9), draw.randint(10, 90)
    )
    sentences, words = [], 0
    while words < _ISSUE_WORDS:
        sentences.append(_sentence(draw, repository))
        words += sentences[-1].count(" ") + 1
    return Issue(
        title=" ".join(_words(draw, repository, draw.randint(4, 9))).capitalize(),
        sentences=tuple(sentences),
        blocks=(_code(draw, repository), *([_traceback(draw, repository)] if draw.random() < 0.5 else [])),
        template=repository.template if draw.random() < 0.6 else ("",),
        versions=version if draw.random() < 0.5 else "",
    )


def patch(draw: random.Random, repository: Repository) -> tuple[Hunk, ...]:
    """A patch of a repository."""
    return tuple(_hunk(draw, repository) for _ in range(draw.choice((1, 2, 2, 3, 3, 4))))


def repositories(language: Language, count: int) -> list[Repository]:
    """Made-up ones, whose owners and names no real repository has."""
    return [Repository(f"owner-{number}/made-{number}", language) for number in range(count)]


def _words(draw: random.Random, repository: Repository, count: int) -> list[str]:
    language = repository.language
    words = draw.choices(language.words, cum_weights=language.weights, k=count)
    for at, name in zip(range(count), repository.draw_names(draw, count), strict=True):
        if draw.random() < 0.12:
            words[at] = f"`{name}`" if draw.random() < 0.5 else name
    return words


def _sentence(draw: random.Random, repository: Repository) -> str:
    words = _words(draw, repository, draw.randint(6, 22))
    if draw.random() < 0.35:
        words.insert(draw.choice((0, len(words))), draw.choice(PHRASES))
    text = " ".join(words)
    return f"{text[0].upper()}{text[1:]}."


def _code(draw: random.Random, repository: Repository) -> str:
    package = repository.name.partition("/")[2].replace("-", "_")
    names = repository.draw_names(draw, 3)
    head = [f"import {package}", f"from {package}.{names[0]} import {names[1]}", "import numpy as np", ""]
    return "\n".join([*head[: draw.randint(1, 4)], *(_line(draw, repository) for _ in range(draw.randint(2, 6)))])


def _traceback(draw: random.Random, repository: Repository) -> str:
    package = repository.name.partition("/")[2].replace("-", "_")
    lines = ["Traceback (most recent call last):", *(frame.format(8) for frame in draw.sample(FRAMES, 2))]
    for name in repository.draw_names(draw, 2):
        place = f'/site-packages/{package}/{name}.py", line {draw.randint(20, 900)}, in {name}'
        lines += [f'  File "/usr/lib/python3.8{place}', f"    {_line(draw, repository).strip()}"]
    return "\n".join([*lines, f"{draw.choice(ERRORS)}: {' '.join(_words(draw, repository, 6))}"])


def _hunk(draw: random.Random, repository: Repository) -> Hunk:
    package = repository.name.partition("/")[2].replace("-", "_")
    folder, file = repository.draw_names(draw, 2)
    lines = [_line(draw, repository) for _ in range(6)]
    removed = tuple(_line(draw, repository) for _ in range(draw.choice((0, 1, 1, 2, 3, 5))))
    added = [_edited(draw, repository, line) for line in removed]
    added += [_line(draw, repository) for _ in range(draw.choice((1, 1, 2, 3, 5, 8)))]
    path = f"{package}/{folder}/{file}.py"
    return Hunk(path, draw.randint(1, 1500), tuple(lines[:3]), removed, tuple(added), tuple(lines[3:]))


def _line(draw: random.Random, repository: Repository) -> str:
    indent = "    " * draw.choice((1, 2, 2, 3))
    idiom = draw.choice(IDIOMS)
    return indent + idiom.format(*repository.draw_names(draw, 4), E=draw.choice(ERRORS))


def _edited(draw: random.Random, repository: Repository, line: str) -> str:
    words = line.split(" ")
    words[draw.randrange(len(words))] += repository.draw_names(draw, 1)[0]
    return " ".join(words)
