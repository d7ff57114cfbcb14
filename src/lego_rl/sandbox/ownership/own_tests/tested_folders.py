"""Which folders that merely have a word for tests in their names hold tests: ``ab_testing`` may be what is tested.

A folder holds tests where its tests import something of the work tree that lies outside of it; where all that they
import lies in it, it is what they test. In either case a file is tested that a test is called after (``stats.py`` for
``stats_test.py``), with what it imports there.

Invariant: only the task's own files are asked. What a package imports of such a folder tells more (`shipped_helpers`),
and where it does, imports of tests say nothing. Tests that start programs or speak to servers may test those, whatever
they import.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_surely_tests_folder, is_test
from lego_rl.sandbox.ownership.own_tests.local_imports import LocalImports

MAX_FILES = 2_000
"""Of a folder, that are read for what they import."""

_REACHES_OUT = re.compile(
    rb"\b(?:subprocess|popen|system|exec[lv]p?e?|spawn\w*|runpy|pexpect|pty|socket|https?|httpx|requests|urllib\d?|aiohttp"
    rb"|selenium|playwright|ctypes|cffi|cdll)\b",
    re.I,
)
"""What starts programs, speaks to servers or loads libraries."""
_AT_BEGIN, _AT_END = "test_", re.compile(r"(?:_test|[.-](?:test|spec))$")


@dataclass(frozen=True)
class TestedFolders:
    """Decides for one task.

    Attributes:
        imports: Reads its files.
        tests: Its test files, and every ``conftest.py`` for them.
    """

    __test__ = False

    imports: LocalImports
    tests: frozenset[str]

    def is_tested(self, folder: str) -> bool:
        """Whether a folder is what its tests test, and no folder of tests."""
        if is_surely_tests_folder(PurePosixPath(folder).name):
            return False
        read = self._closure([file for file in self.tests if _is_below(file, folder)], folder)
        if any(_REACHES_OUT.search(self.imports.tree.read(file)) for file in read):
            return False
        found = {each for file in read for each in self.imports.of(file) if not _is_package_above(each, folder)}
        return all(_is_below(each, folder) for each in found) and any(not _is_test(each) for each in found)

    def called_after(self, folder: str) -> frozenset[str]:
        """Files of a folder that its tests are called after, and what these import in it."""
        if is_surely_tests_folder(PurePosixPath(folder).name):
            return frozenset()
        tests = (file for file in self.tests if _is_below(file, folder))
        return frozenset(self._closure([file for test in tests for file in self._named_by(test)], folder))

    def _named_by(self, test: str) -> Iterator[str]:
        return (file for file in called_after(test) if self.imports.tree.place(file) is not None)

    def _closure(self, files: Iterable[str], folder: str) -> set[str]:
        """Some files and what they import of a folder, tests but for the first left out."""
        found = set(files)
        waiting = list(found)
        while waiting and len(found) < MAX_FILES:
            file = waiting.pop()
            new = {each for each in self.imports.of(file) if _is_below(each, folder)} - found
            found |= new
            waiting += new
        return found


def called_after(test: str) -> Iterator[str]:
    """Files beside a test that have its name without a word for tests."""
    place = PurePosixPath(test)
    without = _AT_END.sub("", place.stem)
    names = {without, place.stem.removeprefix(_AT_BEGIN), without.removeprefix(_AT_BEGIN)} - {place.stem, ""}
    return (str(place.with_name(f"{name}{place.suffix}")) for name in names)


def _is_below(file: str, folder: str) -> bool:
    return file.startswith(f"{folder}/")


def _is_package_above(file: str, folder: str) -> bool:
    """Whether a file is run whatever is imported from a folder."""
    return file.endswith("/__init__.py") and _is_below(folder, file.removesuffix("/__init__.py"))


def _is_test(file: str) -> bool:
    return is_test(PurePosixPath(file).name)
