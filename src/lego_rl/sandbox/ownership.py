"""What is the task's own, whatever a patch says: its test files, and whatever decides which tests run, or how.

Invariant: a patch loses these paths and nothing else; it is never refused for containing them, so that an honest change
to ``setup.cfg`` or a test of the agent's own costs nothing.
"""

import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.reports import dotted, junit_key
from lego_rl.tasks.task import TestSpec

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
        test_files: Files that hold the task's tests, relative to the work tree.
        class_names: Names of their modules and classes in a report.
        pristine: The pristine work tree.
    """

    test_files: frozenset[str]
    class_names: frozenset[str]
    pristine: Path

    @classmethod
    def of(cls, tests: TestSpec, pristine: Path) -> "Ownership":
        """The files that a specification lists, and those that its test ids name."""
        ids = (*tests.fail_to_pass, *tests.pass_to_pass)
        files = frozenset((*tests.test_files, *(test.partition("::")[0] for test in ids)))
        return cls(files, frozenset((*map(dotted, files), *(junit_key(test)[0] for test in ids))), pristine)

    def split(self, patch: Patch) -> tuple[tuple[Change, ...], tuple[str, ...]]:
        """The changes that are applied, and the paths of those that are rolled back."""
        rolled_back = {change.path for change in patch.changes if self.owns(change)}
        return tuple(change for change in patch.changes if change.path not in rolled_back), tuple(sorted(rolled_back))

    def owns(self, change: Change) -> bool:
        """Whether `change` would alter what is the task's own."""
        path = PurePosixPath(change.path)
        return (
            not CONFIGURATION.isdisjoint(path.parts)
            or any(_is_at_or_below(change.path, file) for file in self.test_files)
            or (change.kind != "deleted" and self._is_reported_as_own(change.path))
            or (change.kind != "deleted" and self._replaces_own_folder(path))
            or self._changes_test_package(path, change)
            or any(self._shadows(PurePosixPath(*path.parts[: depth + 1])) for depth in range(len(path.parts)))
        )

    def _is_reported_as_own(self, path: str) -> bool:
        """Whether tests in `path` could have the class names of the task's own in a report.

        ``tests.test_a.py`` is reported as ``tests/test_a.py`` is, and so is a class ``test_a`` in ``tests.py``: a pass
        of theirs would be the own test's where the patch also keeps that one from being collected. A module of the
        repository that is no test by its name stays the agent's to mend.
        """
        if not path.endswith(".py") or ("test" not in PurePosixPath(path).name and (self.pristine / path).is_file()):
            return False
        return any(f"{name}.".startswith(f"{dotted(path)}.") for name in self.class_names)

    def _replaces_own_folder(self, path: PurePosixPath) -> bool:
        """Whether a file or link takes the place of a folder with something of the task's own in it."""
        folder = self.pristine / path
        return self._is_test_folder(path) or (
            folder.is_dir()
            and not folder.is_symlink()
            and any(inner.name in CONFIGURATION for inner in folder.rglob("*"))
        )

    def _changes_test_package(self, path: PurePosixPath, change: Change) -> bool:
        """Whether it makes a package of a test's folder, or a folder of a test's package: both rename test modules."""
        if path.name != "__init__.py" or not self._is_test_folder(path.parent):
            return False
        return change.kind == "deleted" or not (self.pristine / path).is_file()

    def _shadows(self, path: PurePosixPath) -> bool:
        """Whether `path` is new and would be imported in place of a module that the test run uses.

        Only a folder that the pristine tree or a test file brings can be on the module path, and only if it is no
        package.
        """
        folder = self.pristine / path.parent
        if (self.pristine / path).exists() or not (folder.is_dir() or self._is_test_folder(path.parent)):
            return False
        if path.suffix not in ("", ".py", ".so"):
            return False
        module = path.name.split(".", 1)[0]
        if module in {
            PurePosixPath(file).stem for file in self.test_files if PurePosixPath(file).parent == path.parent
        }:
            return True
        return module in SHADOWED_MODULES and not (folder / "__init__.py").is_file()

    def _is_test_folder(self, path: PurePosixPath) -> bool:
        """Whether a test file lies somewhere below `path`."""
        return any(_is_at_or_below(file, str(path)) for file in self.test_files)


def _is_at_or_below(path: str, folder: str) -> bool:
    return folder in (".", path) or path.startswith(f"{folder}/")
