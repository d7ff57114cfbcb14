"""A change of code in parts that can be made one without another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from lego_rl.tasks.make.tree import Step, is_product, is_test

NEAR = 2
"""Lines between two parts of a change of one file, so few that they are one part."""


@dataclass(frozen=True)
class Hunk:
    """Some lines of a file in place of others.

    Attributes:
        path: The file.
        start: First line of the earlier file that goes, from 0.
        end: The line after the last that goes.
        lines: The lines that come instead.
    """

    path: str
    start: int
    end: int
    lines: tuple[str, ...]

    @property
    def size(self) -> int:
        """Lines that go or come."""
        return self.end - self.start + len(self.lines)


def hunks_of(step: Step) -> list[Hunk]:
    """The parts of a step's change of code, by file and line; files that are no text, or that go, are left as they
    were."""
    found = []
    for path in changed_paths(step):
        after = step.after.text(path) if path in step.after.files and is_product(step.after, path) else None
        before = step.before.text(path) if path in step.before.files else ""
        if after is not None and before is not None:
            found += _hunks(path, before.splitlines(keepends=True), after.splitlines(keepends=True))
    return found


def changed_tests(step: Step) -> dict[str, bytes]:
    """The test files of the later state that the earlier one does not have like that, and what they use."""
    files = step.after.files
    return {path: files[path] for path in changed_paths(step) if is_test(path) and path in files}


def changed_paths(step: Step) -> list[str]:
    """Every path that differs, sorted."""
    before, after = step.before.files, step.after.files
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def apply_hunks(files: Mapping[str, bytes], hunks: Iterable[Hunk]) -> dict[str, bytes]:
    """The files that some parts change, with these parts: path → content."""
    by_path: dict[str, list[Hunk]] = {}
    for hunk in hunks:
        by_path.setdefault(hunk.path, []).append(hunk)
    made = {}
    for path, parts in by_path.items():
        lines = files.get(path, b"").decode().splitlines(keepends=True)
        for hunk in sorted(parts, key=lambda each: each.start, reverse=True):
            lines[hunk.start : hunk.end] = hunk.lines
        made[path] = "".join(lines).encode()
    return made


def _hunks(path: str, before: list[str], after: list[str]) -> list[Hunk]:
    spans: list[tuple[int, int, int, int]] = []
    for kind, one, two, three, four in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if spans and one - spans[-1][1] <= NEAR:
            spans[-1] = (spans[-1][0], two, spans[-1][2], four)
        else:
            spans.append((one, two, three, four))
    return [Hunk(path, one, two, tuple(after[three:four])) for one, two, three, four in spans]
