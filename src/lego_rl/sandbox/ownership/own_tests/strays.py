"""New files of an agent's that pytest would collect as tests, where a command leaves it to pytest to find them.

Scratch tests are left behind without a thought, and one that cannot be imported, or is called like a test of the
task's, stops the run of all the others. So they are left out, as in a folder of tests; but for a file that is part of
the product whatever it is called: one that a module of the product imports or names, or the task itself.

Invariant: what a change says counts only for files of that change, and only where it is no comment and no doc string.
Each text is read once, and each file is told to be the product's once, however many there are. What is beyond
`MAX_SAID_BYTES`, which no honest change comes near, says nothing, so that more is left out and never less.
"""

import ast
import os
import re
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_tests_folder
from lego_rl.sandbox.ownership.modules.installed_search import names_in
from lego_rl.sandbox.ownership.run.command_words import pytest_options_in
from lego_rl.sandbox.ownership.run.declared_run import DeclaredRun
from lego_rl.sandbox.ownership.texts.python_imports import by_call, by_statement
from lego_rl.sandbox.ownership.texts.python_syntax import parsed, text_of
from lego_rl.sandbox.ownership.texts.task_tree import MAX_TEXT_BYTES, TaskTree
from lego_rl.sandbox.ownership.texts.words import words_of
from lego_rl.sandbox.verdict import Change
from lego_rl.tasks.task import Task

PATTERNS = ("test_*.py", "*_test.py")
"""What pytest collects by itself."""
DOCTESTS, EXAMPLE = "test*.txt", b">>>"
"""What it collects by itself where such a file has examples: one that they cannot be told in stops the run, too."""
MAX_FILES_SEARCHED = 20_000
"""Python files of the task that are searched."""
MAX_SAID_BYTES = 8 << 20
"""Of the changed Python files in which new tests are named, together."""

_SETTINGS = (".toml", ".cfg", ".ini")
_DOTTED = re.compile(rb"[A-Za-z_]\w*(?:\.\w+)+")
"""A module in settings of the product; what else they hold may be names of tests that were run."""
_FINDS_MODULES = re.compile(rb"\b(?:iter_modules|walk_packages)\b")
"""What a package loads all modules with that lie in it, whatever they are called."""
_NUMBERED = re.compile(r"[0-9]{2,}_\w+\.py")
"""A step of some order, as a migration is."""
_NAMES = re.compile(rb"[\w\x80-\xff.+-]+")
"""What could be the name of a file, or a dotted name."""
_FILE = re.compile(r"[\w.+-]+")
"""The same in a text of a program."""


@dataclass(frozen=True)
class Strays:
    """Decides for one task.

    Attributes:
        tree: The task's files.
        folders: Where pytest looks for tests by itself; ``.`` is the work tree.
        patterns: Names of the files that it collects.
        said: What else of the task may name a file: its instruction, its command and its hidden files.
        taken: Names, without suffix, of the task's own tests: there they mean those.
    """

    tree: TaskTree
    folders: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = PATTERNS
    said: tuple[bytes, ...] = ()
    taken: frozenset[str] = frozenset()

    _finds_modules: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _numbered: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def of(self, changes: Sequence[Change]) -> frozenset[str]:
        """Paths of new tests that are left out.

        Args:
            changes: What is applied of a patch otherwise.
        """
        strays = _Paths(each.path for each in changes if self._is_collected(each) and not self._is_asked_for(each.path))
        python = {each.path: each.content for each in changes if each.kind == "file" and each.path.endswith(".py")}
        changed = {each.path for each in changes}
        waiting = [(path, python[path]) for path in python if path not in strays.left]
        waiting += self._pristine(strays, changed)
        for each in changes:
            if each.path.endswith(_SETTINGS) and len(each.content) <= MAX_TEXT_BYTES:
                named = {path for name in _DOTTED.findall(each.content) for path in strays.take_imported(name.decode())}
                waiting += [(path, python[path]) for path in sorted(named) if path in python]
        room = MAX_SAID_BYTES
        while waiting and strays.left:
            path, text = waiting.pop()
            if not strays.may_be_named(text):
                continue
            room -= len(text) if path in python else 0
            named = _named(path, text, strays) if room >= 0 else set()
            waiting += [(each, python[each]) for each in sorted(named) if each in python]
        return frozenset(strays.left)

    def _is_collected(self, change: Change) -> bool:
        name = change.path.rpartition("/")[2]
        is_doctest = fnmatchcase(name, DOCTESTS) and EXAMPLE in change.content
        is_test = is_doctest or (name.endswith(".py") and any(fnmatchcase(name, each) for each in self.patterns))
        if change.kind == "deleted" or not is_test or os.path.lexists(self.tree.pristine / change.path):
            return False
        if self._is_loaded_with_others(PurePosixPath(change.path)):
            return False
        return any(folder == "." or change.path.startswith(f"{folder}/") for folder in self.folders)

    def _is_loaded_with_others(self, path: PurePosixPath) -> bool:
        """Whether the product finds it by where it lies: numbered as its neighbours, or in a package that loads all."""
        folder = str(path.parent)
        if folder not in self._finds_modules:
            self._finds_modules[folder] = _FINDS_MODULES.search(self.tree.read(f"{folder}/__init__.py")) is not None
            names = names_in(str(self.tree.pristine / folder))
            self._numbered[folder] = any(map(_NUMBERED.match, names))
        is_numbered = self._numbered[folder] and _NUMBERED.match(path.name) is not None
        return (is_numbered or self._finds_modules[folder]) and not any(map(is_tests_folder, path.parts[:-1]))

    def _is_asked_for(self, path: str) -> bool:
        stem = PurePosixPath(path).stem
        return stem not in self.taken and os.fsencode(stem) in self._said

    @cached_property
    def _said(self) -> frozenset[bytes]:
        return frozenset().union(*map(_names_in, self.said))

    def _pristine(self, strays: "_Paths", changed: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """The Python files of the task that hold the name of a stray."""
        for file in self.tree.files(".", MAX_FILES_SEARCHED) if strays.left else ():
            if file.endswith(".py") and file not in changed and strays.may_be_named(text := self.tree.read(file)):
                yield file, text


def strays_of(task: Task, tree: TaskTree, tests: frozenset[str], run: DeclaredRun) -> Strays | None:
    """What decides for a task; ``None`` where nothing finds tests by itself.

    Args:
        task: The task.
        tree: Its files.
        tests: Its test files.
        run: What the task says of its test run.
    """
    folders = run.searched
    if not folders:
        return None
    said = [pytest_options_in(tree, folder).get("python_files", "") for folder in sorted({".", *folders})]
    patterns = {each for words in said for each in words.split()} | run.collected
    files = (path for path in sorted((task.path / "tests").rglob("*")) if path.is_file())
    own = (path.read_bytes() for path in files if path.stat().st_size <= MAX_TEXT_BYTES)
    taken = frozenset(PurePosixPath(file).stem for file in tests)
    return Strays(tree, folders, (*PATTERNS, *sorted(patterns)), (task.instruction.encode(), *own), taken)


class _Paths:
    """New tests that nothing has named yet, found by the ends of their paths.

    Attributes:
        left: Their paths.
    """

    def __init__(self, paths: Iterator[str]) -> None:
        self.left = set(paths)
        self._stems = {os.fsencode(PurePosixPath(path).stem) for path in self.left}
        self._backwards = sorted((_backwards(PurePosixPath(path).with_suffix("").parts), path) for path in self.left)
        self._named: dict[str, set[str]] = {}
        self._asked: set[str] = set()
        for path in self.left:
            self._named.setdefault(PurePosixPath(path).name, set()).add(path)

    def may_be_named(self, text: bytes) -> bool:
        """Whether a text has the name of one in it, which need not be left."""
        return not self._stems.isdisjoint(_names_in(text))

    def take(self, path: str) -> set[str]:
        """One of a path, which is then no more among them."""
        return self._take({path})

    def take_called(self, name: str) -> set[str]:
        """Those in files of a name."""
        return self._take(self._named.pop(name, set()))

    def take_imported(self, dotted: str) -> set[str]:
        """Those that are modules of a name, imported from whatever folder."""
        end = _backwards(dotted.split("."))
        if end in self._asked or not dotted:
            return set()
        self._asked.add(end)
        first, last = (bisect_left(self._backwards, (f"{end}{mark}", "")) for mark in ("", chr(sys.maxunicode)))
        found = {path for _, path in self._backwards[first:last]}
        return self._take(found)

    def _take(self, paths: set[str]) -> set[str]:
        found = paths & self.left
        self.left -= found
        return found


def _backwards(parts: Sequence[str]) -> str:
    return "".join(f"{part}/" for part in reversed(parts))


def _names_in(text: bytes) -> frozenset[bytes]:
    """Words, and names of files without a suffix; what is called with other characters is named nowhere."""
    names = (name.rstrip(b".") for name in _NAMES.findall(text))
    return words_of(text) | {name.rpartition(b".")[0] or name for name in names}


def _named(path: str, text: bytes, strays: _Paths) -> set[str]:
    """Those that a Python file imports, or has the name of in a text; they are then no more among the strays."""
    program = parsed(text)
    if program is None:
        return set()
    folder, found = PurePosixPath(path).parts[:-1], set[str]()
    lone = {id(node.value) for node in ast.walk(program) if isinstance(node, ast.Expr)}
    for node in ast.walk(program):
        for name in (*by_statement(node), *by_call(node)):
            if name.level:
                above = folder[: max(0, len(folder) + 1 - name.level)]
                found |= strays.take("/".join([*above, *name.dotted.split(".")]) + ".py")
            else:
                found |= strays.take_imported(name.dotted)
        said = text_of(node)
        if said is not None and id(node) not in lone:  # a doc string is one alone
            found |= strays.take_imported(said.partition(":")[0])
            for word in _FILE.findall(said):
                found |= strays.take_called(word.rstrip("."))
    return found
