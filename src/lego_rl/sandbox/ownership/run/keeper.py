"""Which files of a task a test run makes its own, and which of them are read on."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.deciding_files import MERGED
from lego_rl.sandbox.ownership.merge.manifests import MANIFESTS
from lego_rl.sandbox.ownership.run.command_words import MAX_FILES_OF_RUN, plain
from lego_rl.sandbox.ownership.run.found import RunFound
from lego_rl.sandbox.ownership.run.tested_code import TestedCode
from lego_rl.sandbox.ownership.texts.shell_words import without_variable
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree

WILD = "*?["
"""Characters of a pattern."""


@dataclass
class RunKeeper:
    """What has been found, and the files that wait to be read.

    Attributes:
        tree: The task's files.
        workdir: Where the work tree is inside.
        tests: Texts that tell what is tested (`TestedCode`).
        with_tests: Folders with a word for tests in their names that hold tests, and may be what these test.
        found: What has been found.
        waiting: Files to be read, by their names.
        waiting_last: Those to be read after all others, which only fit a pattern.
        read: Files that have been read.
        reading: The one that is being read; empty where that is a text of the task's own.
        of_tests: Files that only the tests lead to.
    """

    tree: TaskTree
    workdir: str
    tests: tuple[bytes, ...]
    with_tests: frozenset[str] = frozenset()
    found: RunFound = field(default_factory=RunFound)
    waiting: dict[str, None] = field(default_factory=dict)
    waiting_last: dict[str, None] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    reading: str = ""
    of_tests: set[str] = field(default_factory=set)
    _known: dict[frozenset[str], TestedCode] = field(default_factory=dict)

    def is_beside_tests(self, path: str) -> bool:
        """Whether a file lies in one of `with_tests`: what the tests import there may be what they test."""
        return any(path.startswith(f"{folder}/") for folder in self.with_tests)

    def wait_for(self, path: str) -> None:
        """Have a file read, once; it need not be a file of the run itself."""
        if path not in self.read and self.tree.place(path) is not None:
            if self.reading not in self.of_tests:
                self.of_tests.discard(path)
            elif path not in self.waiting:
                self.of_tests.add(path)
            self.waiting_last.pop(path, None)
            self.waiting[path] = None

    def read_for_arguments(self, path: str) -> None:
        """A file that tells a command what to do, which is the product's where it lies in what is tested."""
        if not self.is_tested(path):
            self.found.arguments.add(path)
            self.own(path)

    def read_by(self, file: str, folder: str) -> None:
        """A file that a program reads, which is the product's where it lies in what is tested."""
        for place in (file, f"{folder}/{file}"):
            path = plain(place)
            if self.tree.place(path) is not None and not self.is_tested(path):
                self.own(path)

    def expected(self, word: str, places: list[str]) -> None:
        """Data of the tests, which is never read as a script."""
        for path in {path for place in places for path in self.below(word, place)}:
            if self.is_tested(path):
                continue
            if any(mark in path for mark in WILD):
                self.found.patterns.add(path)
            elif self.tree.place(path) is not None:
                self.found.files.add(path)

    def own_matching(self, pattern: str) -> None:
        """Keep what fits a pattern, there or not yet, and read it after everything that has a name."""
        if not pattern.strip("*?/."):
            return  # It would be every file.
        if not pattern.endswith(".py"):
            self.found.patterns.add(pattern)
        folder = pattern[: min(pattern.find(mark) for mark in WILD if mark in pattern)].rpartition("/")[0]
        for file in self.tree.files(folder or ".", MAX_FILES_OF_RUN):
            if fnmatchcase(file, pattern) and self._keep(file) and file not in self.read and file not in self.waiting:
                self.waiting_last[file] = None

    def below(self, word: str, place: str) -> Iterator[str]:
        """A path as it is in the work tree, from a folder of it; nothing where it leads out of it."""
        top = PurePosixPath(self.workdir)
        path = PurePosixPath(os.path.normpath(top / place / without_variable(word)))
        if path.is_relative_to(top):
            yield str(path.relative_to(top))

    def own(self, path: str) -> None:
        """Keep a file of the run, and read it."""
        if self._keep(path):
            self.wait_for(path)

    def _keep(self, path: str) -> bool:
        """Keep a file, unless it is what is tested; one of which parts can be the agent's is merged instead."""
        if path == "." or (path.endswith(".py") and self.is_tested(path)):
            return False
        name = PurePosixPath(path).name
        if name in MANIFESTS:
            self.found.manifests.add(name)
        elif name not in MERGED - {"tox.ini"}:
            self.found.files.add(path)
        if path.endswith(".py"):
            self.found.module_folders.add(str(PurePosixPath(path).parent))
        return True

    def is_tested(self, path: str) -> bool:
        """Whether a file is a module of what is tested."""
        return self._tested().has(path)

    def is_asked_for(self, path: str) -> bool:
        """Whether a module that the task lacks is of what is tested, or asked for by the tests."""
        return self._tested().has(path) or self._tested().is_asked_for(path)

    def _tested(self) -> TestedCode:
        folders = frozenset({*self.found.module_folders, "src"})
        if folders not in self._known:
            self._known[folders] = TestedCode(self.tree, folders, self.tests)
        return self._known[folders]

    def own_module(self, name: str, folders: Iterable[str]) -> None:
        """Keep what importing or running a module from some folders executes, and read it."""
        for file in {file for folder in folders for file in self.tree.executed_by(name, folder)}:
            self.own(file)

    def own_plugin(self, name: str) -> None:
        """Keep a plugin, which is the run's even where what is tested ships it."""
        self.found.imports.add(name)
        folders = {*self.found.module_folders, "src"}
        place = name.replace(".", "/")
        for file in {file for folder in folders for file in self.tree.executed_by(name, folder)}:
            if file.endswith((f"{place}.py", f"{place}/__init__.py")):
                self.found.files.add(file)
                self.wait_for(file)
            else:
                self.own(file)
