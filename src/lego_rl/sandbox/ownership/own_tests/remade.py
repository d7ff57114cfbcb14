"""What ``make`` makes a file anew from by rules of its own, if that is newer than the file: a patch always is.

``Makefile.sh`` becomes ``Makefile`` before anything of a Makefile is run, and so does whatever else a rule of the run
needs: a script, an included file, a source of the tests. What it is made from decides as much as the file itself.

Invariant: only names are asked. The list is that of ``make -p``: versions, yacc and lex and their like, programs.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.own_tests.folders_of_tests import FoldersOfTests
from lego_rl.sandbox.ownership.run.declared_run import DeclaredRun

MAX_STEPS = 4
"""How far a chain of rules is followed."""

HEAD_BYTES = 4_096
"""Of a file, by which it is told to be a text."""

_SOURCES = (
    (r"(.*)\.sh", ("",)),
    (r"(.*)\.y", (".c", ".ln")),
    (r"(.*)\.l", (".c", ".r", ".ln")),
    (r"(.*)\.(?:w|ch)", (".c", ".tex")),
    (r"(.*)\.web", (".p", ".tex")),
    (r"(.*)\.ym", (".m",)),
    (r"(.*)\.lm", (".m",)),
    (r"(.*)\.[Fr]", (".f",)),
    (r"(.*)\.S", (".s",)),
    (r"(.*)\.def", (".sym",)),
    (r"(.*)\.(?:texinfo|texi|txinfo)", (".info", ".dvi")),
    (r"(.*)\.tex", (".dvi",)),
    (r"(.*),v", ("",)),
    (r"(.*)", (".out",)),
)
_PROGRAMS = re.compile(r"(.+)\.(?:o|c|cc|C|cpp|p|f|F|m|r|s|S|mod)")
"""What a program without a suffix is made from."""
type Step = Callable[[str], Iterable[str]]
_PATTERNS = tuple((re.compile(pattern), made) for pattern, made in _SOURCES)


@dataclass(frozen=True)
class Remade:
    """Decides for one task.

    Attributes:
        pristine: The pristine work tree.
        run: What the task says of its test run.
        own: Its test files, and all hidden ones.
        tests: The folders around them.
    """

    pristine: Path
    run: DeclaredRun
    own: frozenset[str]
    tests: FoldersOfTests

    def leads_to_tests(self, path: str) -> bool:
        """Whether ``make`` would make something of the task's own from a path, where it runs at all."""
        if not self.run.has_makefile:
            return False
        programs = (each for each in programs_from(path) if not is_binary(self.pristine / each))
        return any(map(self._is_own, (*made_from(path), *programs)))

    def _is_own(self, path: str) -> bool:
        if path in self.own or self.run.runs(path):
            return True
        is_beside_tests = any(path.startswith(f"{folder}/") for folder in self.tests.support)
        return is_beside_tests and path not in self.tests.shipped and (self.pristine / path).is_file()


def made_from(path: str) -> frozenset[str]:
    """Every file that ``make`` would make from one by the rules that it has itself, at first or second hand."""
    return _closure(path, _made)


def programs_from(path: str) -> frozenset[str]:
    """The same of what a compiler or linker takes for a program, whatever is in it."""
    return _closure(path, lambda each: (*_made(each), *_programs(each))) - made_from(path)


def is_binary(place: Path) -> bool:
    """Whether there is a file that is no text, such as a program that was compiled."""
    try:
        with place.open("rb") as stream:
            return b"\0" in stream.read(HEAD_BYTES)
    except OSError:
        return False


def _closure(path: str, step: Step) -> frozenset[str]:
    found: set[str] = set()
    new = {path}
    for _ in range(MAX_STEPS):
        new = {made for each in new for made in step(each)} - found
        found |= new
    return frozenset(found)


def _made(path: str) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    for pattern, suffixes in _PATTERNS:
        if (found := pattern.fullmatch(name)) is not None and found[1]:
            yield from (_in(folder, f"{found[1]}{suffix}") for suffix in suffixes)
    above, _, last = folder.rpartition("/")
    if last in {"RCS", "SCCS"}:
        yield _in(above, name)
    if name.startswith("s.") and len(name) > 2:
        yield _in(above if last == "SCCS" else folder, name[2:])


def _programs(path: str) -> Iterator[str]:
    place = PurePosixPath(path)
    if (found := _PROGRAMS.fullmatch(place.name)) is not None:
        yield str(place.with_name(found[1]))


def _in(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
