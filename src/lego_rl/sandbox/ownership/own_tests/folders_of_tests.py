"""The folders around a task's tests, and what in them is the task's own.

Invariant: only the pristine tree and the names of the tests are asked. A helper that a package ships is the agent's
(`shipped_helpers`), and so is a new file that is no test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test, support_folders
from lego_rl.sandbox.ownership.modules.module_path import ModulePath
from lego_rl.sandbox.ownership.own_tests.helpers_beside import HelpersBeside
from lego_rl.sandbox.ownership.own_tests.local_imports import LocalImports
from lego_rl.sandbox.ownership.own_tests.packages_of_tests import deciding
from lego_rl.sandbox.ownership.own_tests.shipped_helpers import shipped
from lego_rl.sandbox.ownership.own_tests.tested_folders import TestedFolders
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change


@dataclass(frozen=True)
class FoldersOfTests:
    """Decides for one task.

    Attributes:
        module_path: Where modules of the test run can lie.
        test_files: Files that hold the task's tests, relative to the work tree.
        collected: Patterns of the names of files that a runner collects.
    """

    module_path: ModulePath
    test_files: frozenset[str]
    collected: frozenset[str] = frozenset()

    @cached_property
    def support(self) -> frozenset[str]:
        """Folders of tests and what they use."""
        named = support_folders(self.test_files)
        return frozenset(each for each in named if self._shipped[each] or not self._tested.is_tested(each))

    @cached_property
    def shipped(self) -> frozenset[str]:
        """Files in those folders that are product code all the same."""
        named = ((folder, self._shipped[folder]) for folder in self.support)
        return frozenset().union(*(found or self._tested.called_after(folder) for folder, found in named))

    @cached_property
    def _shipped(self) -> dict[str, frozenset[str]]:
        """What packages ship of the folders that are called like ones of tests."""
        pristine = self.module_path.pristine
        return {folder: shipped(pristine, folder) for folder in support_folders(self.test_files)}

    @cached_property
    def _tested(self) -> TestedFolders:
        return TestedFolders(self._imports, self._loaded)

    @cached_property
    def _helpers(self) -> HelpersBeside:
        return HelpersBeside(self._imports, self._loaded)

    @cached_property
    def _imports(self) -> LocalImports:
        return LocalImports(self.module_path.tree, self.module_path.certain)

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """The tests, and every ``conftest.py`` for them."""
        conftests = (str(PurePosixPath(folder, "conftest.py")) for folder in self.above)
        return self.test_files.union(file for file in conftests if self.module_path.tree.place(file) is not None)

    @cached_property
    def above(self) -> frozenset[str]:
        """Every folder that a test file lies below; ``.`` is the work tree."""
        return frozenset(str(folder) for file in self.test_files for folder in PurePosixPath(file).parents)

    def inside(self, path: str) -> str | None:
        """A path from the folder of tests on that it lies in, its name first; ``None`` where it is in none."""
        above = (folder for folder in self.support if path.startswith(f"{folder}/"))
        folder = next(above, None)
        return None if folder is None else path[len(folder.rpartition("/")[0]) :].lstrip("/")

    def reasons(self, change: Change, *, in_support: bool, is_new: bool) -> Iterator[Reason]:
        """Why a change would alter what the tests are or use.

        Args:
            change: What an agent changed.
            in_support: It is, or lies in, one of `support`.
            is_new: The task has nothing there.
        """
        above, _, name = change.path.rpartition("/")
        above_tests = (above or ".") in self.above
        in_support = in_support and change.path not in self.shipped
        if name == "__init__.py" and above_tests:
            decides = (above or ".") in self._packages and (is_new or change.kind == "deleted")
            if decides or in_support:
                yield Reason.TEST_PACKAGE
        elif not is_new and (in_support or self._helpers.has(change.path)):
            yield Reason.SUPPORT
        elif in_support and self._is_test(name):
            yield Reason.OWN_TEST
        if name in {"pyproject.toml", "setup.py"} and above and above_tests and (is_new or change.kind != "file"):
            yield Reason.ROOT

    def _is_test(self, name: str) -> bool:
        return name.endswith(".py") and (is_test(name) or any(fnmatchcase(name, each) for each in self.collected))

    @cached_property
    def _packages(self) -> frozenset[str]:
        """Folders that are a part of the tests' names where they are packages."""
        pristine = self.module_path.pristine
        return deciding(self.test_files, self.module_path.is_package, lambda file: (pristine / file).is_file())
