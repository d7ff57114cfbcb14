"""Helpers that lie beside tests in no folder of tests: ``pkg/test_base.py``, ``helpers_test.py``, ``testutil.py``.

One counts that is called like a test, or begins as one does, and that a test of the task's or a ``conftest.py`` in its
folder imports, while it imports something else of the work tree, too: that is what is tested. It is product code all
the same if a file that is no test imports it, or a test is called after it.

Invariant: only the task's own files are asked, and not how a command names the tests.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_surely_tests_folder, is_test
from lego_rl.sandbox.ownership.own_tests.local_imports import LocalImports
from lego_rl.sandbox.ownership.own_tests.tested_folders import called_after

MAX_FILES = 20_000
"""Of the work tree, among which product code is looked for that imports one."""

_SUFFIXES = (".py", ".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx")
_INSTALLED = frozenset({"node_modules", "vendor", "site-packages", ".git"})


@dataclass(frozen=True)
class HelpersBeside:
    """Decides for one task.

    Attributes:
        imports: Reads its files.
        tests: Its test files, and every ``conftest.py`` for them.
    """

    imports: LocalImports
    tests: frozenset[str]

    def has(self, path: str) -> bool:
        """Whether a file that the task has is such a helper."""
        return _may_be_helper(path) and path in self._found

    @cached_property
    def _found(self) -> frozenset[str]:
        beside = set(self._imported_by(self.tests))
        named = {file for test in self.tests for file in called_after(test)}
        return frozenset(beside - named - self._imported_by_product(beside) - self.tests)

    def _imported_by(self, tests: frozenset[str]) -> Iterator[str]:
        """What tests import of their own folders, at first or second hand, where they import something else, too."""
        for test in tests:
            found, waiting = {test}, [test]
            while waiting:
                new = self.imports.of(waiting.pop()) - found
                found |= new
                waiting += filter(_may_be_helper, new)
            if not all(map(_may_be_helper, found - {test})):
                folder = PurePosixPath(test).parent
                yield from (each for each in found if _may_be_helper(each) and PurePosixPath(each).parent == folder)

    def _imported_by_product(self, helpers: set[str]) -> set[str]:
        stems = [os.fsencode(PurePosixPath(each).stem) for each in helpers]
        found: set[str] = set()
        for file in self.imports.tree.files(".", MAX_FILES) if helpers else ():
            if _is_product(file) and any(stem in self.imports.tree.read(file) for stem in stems):
                found |= self.imports.of(file) & helpers
        return found


def _may_be_helper(path: str) -> bool:
    name, suffix = PurePosixPath(path).name, PurePosixPath(path).suffix
    return suffix in _SUFFIXES and name != "conftest.py" and (is_test(name) or name.startswith("test"))


def _is_product(file: str) -> bool:
    place = PurePosixPath(file)
    is_inside = not any(name in _INSTALLED or is_surely_tests_folder(name) for name in place.parts[:-1])
    is_alone = place.name in {"conftest.py", "setup.py"} or _may_be_helper(file) or ".test." in file or ".spec." in file
    return place.suffix in _SUFFIXES and is_inside and not is_alone
