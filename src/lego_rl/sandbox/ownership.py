"""What is the task's own, whatever a patch says: its test files, and whatever decides which tests run, or how.

Invariant: a patch loses these paths and nothing else; it is never refused for containing them, so that an honest change
to ``setup.cfg`` or a test of the agent's own costs nothing.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.verdict import Change, Patch

CONFIGURATION = frozenset({
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
    "pyproject.toml", "sitecustomize.py", "usercustomize.py",
})  # fmt: skip
"""Files that pytest or the interpreter reads by name, in whatever folder they are."""

RUNNER_MODULES = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "conftest", "sitecustomize",
    "usercustomize",
})  # fmt: skip
SHADOWED_MODULES = RUNNER_MODULES | sys.stdlib_module_names
"""Modules that the test run imports: a file of such a name on the module path would be imported in their place."""


@dataclass(frozen=True)
class Ownership:
    """Decides for one task.

    Attributes:
        test_files: The task's own test files, relative to the work tree.
        pristine: The pristine work tree.
    """

    test_files: Sequence[str]
    pristine: Path

    def split(self, patch: Patch) -> tuple[tuple[Change, ...], tuple[str, ...]]:
        """The changes that are applied, and the paths of those that are rolled back."""
        rolled_back = {change.path for change in patch.changes if self.owns(change)}
        return tuple(change for change in patch.changes if change.path not in rolled_back), tuple(sorted(rolled_back))

    def owns(self, change: Change) -> bool:
        """Whether `change` would alter what is the task's own."""
        path = PurePosixPath(change.path)
        return (
            path.name in CONFIGURATION
            or any(_is_at_or_below(change.path, file) for file in self.test_files)
            or self._changes_test_package(path, change)
            or any(self._shadows(PurePosixPath(*path.parts[: depth + 1])) for depth in range(len(path.parts)))
        )

    def _changes_test_package(self, path: PurePosixPath, change: Change) -> bool:
        """Whether it makes a package of a test's folder, or a folder of a test's package: both rename test modules."""
        if path.name != "__init__.py" or not any(_is_at_or_below(file, str(path.parent)) for file in self.test_files):
            return False
        return change.kind == "deleted" or not (self.pristine / path).is_file()

    def _shadows(self, path: PurePosixPath) -> bool:
        """Whether `path` is new and would be imported in place of a module that the test run uses.

        Only a folder of the pristine tree that is no package can be on the module path.
        """
        folder = self.pristine / path.parent
        if (self.pristine / path).exists() or not folder.is_dir():
            return False
        module = path.name.split(".", 1)[0]
        is_source = path.suffix in ("", ".py", ".so")
        if is_source and module in self._test_modules(path.parent):
            return True
        return is_source and module in SHADOWED_MODULES and not (folder / "__init__.py").is_file()

    def _test_modules(self, folder: PurePosixPath) -> Iterable[str]:
        return {PurePosixPath(file).stem for file in self.test_files if PurePosixPath(file).parent == folder}


def _is_at_or_below(path: str, folder: str) -> bool:
    return folder in (".", "") or path == folder or path.startswith(f"{folder}/")
