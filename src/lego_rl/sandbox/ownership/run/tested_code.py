"""What a task's tests test, as far as their imports tell: the packages that they import, and what those import.

Invariant: only the task's own files are asked. What the tests import anyway can say whatever it likes in the process
that tests it, so it would gain nobody anything to keep the task's own of it where a command runs a part of it too.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test, is_tests_folder
from lego_rl.sandbox.ownership.texts.python_imports import imported, top_modules
from lego_rl.sandbox.ownership.texts.task_tree import TaskTree

MAX_MODULES = 5_000
"""Of the modules whose imports are read."""

_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.\.", re.M)


@dataclass(frozen=True)
class TestedCode:
    """Decides for one task.

    Attributes:
        tree: Its files.
        folders: Folders of the work tree that are on the module path.
        tests: Texts of its tests and of each ``conftest.py``: fixtures hand over what is tested, too.
    """

    __test__ = False

    tree: TaskTree
    folders: frozenset[str]
    tests: tuple[bytes, ...]

    def has(self, path: str) -> bool:
        """Whether a Python file is a module of what is tested; what lies in a folder of tests never is.

        What is called like a test is, only where what is tested imports it.
        """
        place = PurePosixPath(path)
        if self._is_with_tests(place) or (is_test(place.name) and not self._imports(place)):
            return False
        return any(_top(place, folder) in self._tops for folder in self.folders)

    def _imports(self, place: PurePosixPath) -> bool:
        """Whether a file of what is tested, and that is no test, imports a module that is called like a test."""
        inside = [place.relative_to(folder) for folder in self.folders if place.is_relative_to(folder)]
        return any(".".join(each.with_suffix("").parts) in self._imported for each in inside)

    @cached_property
    def _imported(self) -> frozenset[str]:
        """Names that what is tested imports of modules that may be called like tests."""
        found: set[str] = set()
        files = {file for top in self._tops for file in self._files_of(top)}
        for place in map(PurePosixPath, sorted(files)[:MAX_MODULES]):
            text = self.tree.read(str(place))
            if b"test" not in text or self._is_with_tests(place):
                continue
            names = imported(text)
            for folder in (each for each in self.folders if place.is_relative_to(each)):
                package = place.relative_to(folder).parts[:-1]
                found.update(filter(None, (name.resolved(package) for name in names)))
        return frozenset(found)

    def _is_with_tests(self, place: PurePosixPath) -> bool:
        return any(map(is_tests_folder, place.parts[:-1]))

    def is_asked_for(self, path: str) -> bool:
        """Whether a Python file that the task lacks would be of a module that a test imports or starts."""
        place = PurePosixPath(path)
        if is_test(place.name) or any(map(is_tests_folder, place.parts[:-1])):
            return False
        return any(_top(place, folder) in self._named for folder in self.folders)

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(top for text in self.tests for top in top_modules(text))

    @cached_property
    def _tops(self) -> frozenset[str]:
        """First parts of the names of its modules."""
        found: set[str] = set()
        waiting = set(self._named)
        left = MAX_MODULES
        while waiting and left > 0:
            top = waiting.pop()
            files = self._files_of(top) if top not in found and not is_tests_folder(top) else []
            if files:
                found.add(top)
            for file in files[:left]:
                waiting |= top_modules(self.tree.read(file)) - found
            left -= len(files)
        return frozenset(found)

    def _files_of(self, top: str) -> list[str]:
        places = [str(PurePosixPath(folder, top)) for folder in sorted(self.folders)]
        alone = [f"{place}.py" for place in places if self.tree.place(f"{place}.py") is not None]
        return [
            *alone,
            *(
                file
                for place in places
                for file in self.tree.files(place, MAX_MODULES)
                if file.endswith(".py") and not is_test(PurePosixPath(file).name)
            ),
        ]


def packages_of(tree: TaskTree, tests: Iterable[str]) -> Iterator[bytes]:
    """Imports of the packages that have folders of tests in them, for tests that import those by ``from ..``."""
    for file in tests:
        inside = list(takewhile(lambda folder: tree.place(f"{folder}/__init__.py"), PurePosixPath(file).parents))
        is_within = any(is_tests_folder(folder.name) for folder in inside[:-1])
        if is_within and _RELATIVE.search(tree.read(file)):
            yield b"import %s" % os.fsencode(inside[-1].name)


def _top(path: PurePosixPath, folder: str) -> str:
    """The first part of a module's name, imported from a folder; empty where it does not lie there."""
    if not path.is_relative_to(folder):
        return ""
    parts = path.relative_to(folder).with_suffix("").parts
    return parts[0] if parts else ""
