"""Which files of a task a test run makes its own, and which of them are read on."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.configuration import MERGED
from lego_rl.sandbox.ownership.manifests import MANIFESTS
from lego_rl.sandbox.ownership.run_found import RunFound
from lego_rl.sandbox.ownership.run_words import MAX_FILES, plain
from lego_rl.sandbox.ownership.shell_words import without_variable
from lego_rl.sandbox.ownership.task_tree import TaskTree
from lego_rl.sandbox.ownership.tested_code import TestedCode

WILD = "*?["
"""Characters of a pattern."""
type Counts = Callable[[str], bool]


def anything(_: str) -> bool:
    """Every file that is named counts."""
    return True


def nothing(_: str) -> bool:
    """No file that is named counts."""
    return False


@dataclass
class RunKeeper(RunFound):
    """What has been found, and the files that wait to be read.

    Attributes:
        tree: The task's files.
        workdir: Where the work tree is inside.
        tests: Texts that tell what is tested (`TestedCode`).
        counts: Whether a file that is named, or a program with its words, runs tests.
        counts_lacking: Whether a script does that is run, and that the task lacks.
    """

    tree: TaskTree = field(kw_only=True)
    workdir: str = field(kw_only=True)
    tests: tuple[bytes, ...] = field(kw_only=True)
    counts: Counts = field(kw_only=True)
    counts_lacking: Counts = field(kw_only=True, default=anything)
    _waiting: dict[str, None] = field(default_factory=dict)
    _waiting_last: dict[str, None] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)
    _known: dict[frozenset[str], TestedCode] = field(default_factory=dict)

    def wait_for(self, path: str) -> None:
        """Have a file read, once; it need not be a file of the run itself."""
        if path not in self._read and self.tree.place(path) is not None:
            self._waiting_last.pop(path, None)
            self._waiting[path] = None

    def _read_for_arguments(self, path: str) -> None:
        """A file that tells a command what to do, which is the product's where it lies in what is tested."""
        if not self._is_tested(path):
            self.arguments.add(path)
            self._own(path)

    def _read_by(self, file: str, folder: str) -> None:
        """A file that a program reads, which is the product's where it lies in what is tested."""
        for place in (file, f"{folder}/{file}"):
            path = plain(place)
            if self.tree.place(path) is not None and not self._is_tested(path):
                self._own(path)

    def _expected(self, word: str, places: list[str]) -> None:
        """Data of the tests, which is never read as a script."""
        for path in {path for place in places for path in self._below(word, place)}:
            if self._is_tested(path):
                continue
            if any(mark in path for mark in WILD):
                self.patterns.add(path)
            elif self.tree.place(path) is not None:
                self.files.add(path)

    def _own_matching(self, pattern: str) -> None:
        if not pattern.strip("*?/."):
            return  # It would be every file.
        if not pattern.endswith(".py"):
            self.patterns.add(pattern)
        folder = pattern[: min(pattern.find(mark) for mark in WILD if mark in pattern)].rpartition("/")[0]
        for file in self.tree.files(folder or ".", MAX_FILES):
            if fnmatchcase(file, pattern) and self._keep(file) and file not in self._read and file not in self._waiting:
                self._waiting_last[file] = None

    def _below(self, word: str, place: str) -> Iterator[str]:
        """A path as it is in the work tree, from a folder of it; nothing where it leads out of it."""
        top = PurePosixPath(self.workdir)
        path = PurePosixPath(os.path.normpath(top / place / without_variable(word)))
        if path.is_relative_to(top):
            yield str(path.relative_to(top))

    def _own(self, path: str) -> None:
        """Keep a file of the run, and read it."""
        if self._keep(path):
            self.wait_for(path)

    def _keep(self, path: str) -> bool:
        """Keep a file, unless it is what is tested; one of which parts can be the agent's is merged instead."""
        if path == "." or (path.endswith(".py") and self._is_tested(path)):
            return False
        name = PurePosixPath(path).name
        if name in MANIFESTS:
            self.manifests.add(name)
        elif name not in MERGED - {"tox.ini"}:
            self.files.add(path)
        if path.endswith(".py"):
            self.folders.add(str(PurePosixPath(path).parent))
        return True

    def _is_tested(self, path: str) -> bool:
        folders = frozenset({*self.folders, "src"})
        if folders not in self._known:
            self._known[folders] = TestedCode(self.tree, folders, self.tests)
        return self._known[folders].has(path)

    def _import(self, name: str, folders: Iterable[str]) -> None:
        for file in {file for folder in folders for file in self.tree.executed_by(name, folder)}:
            self._own(file)
