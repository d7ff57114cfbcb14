"""What is the task's own, whatever a patch says: its tests, and whatever decides which tests run, or how.

Invariant: a patch loses these paths and nothing else, each with a reason; it is never refused for containing them, so
that an honest change to ``setup.cfg`` or a test of the agent's own costs nothing. Where a task says that a path is the
agent's (``[metadata] editable``), it is.
"""

import importlib.machinery
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.configuration import DECIDES, MERGED, merge
from lego_rl.sandbox.declared_run import DeclaredRun
from lego_rl.sandbox.verdict import Change, Patch
from lego_rl.tasks.reports import dotted, junit_key
from lego_rl.tasks.task import Task, TestSpec

CONFIGURATION = frozenset({
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "toxfile.py",
    "noxfile.py", "sitecustomize.py", "usercustomize.py",
})  # fmt: skip
"""Files that a test runner or the interpreter reads by name, in whatever folder they are, and nothing else does."""

ENVIRONMENT = frozenset({".env", ".envrc", ".flaskenv", ".python-version", ".tool-versions", ".pdbrc"})
"""Files from which tools take environment variables, or the interpreter to run."""

RUNNER_MODULES = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "conftest", "sitecustomize",
    "usercustomize", "exceptiongroup", "tomli", "colorama", "xdist", "execnet", "pytest_cov", "coverage",
    "pytest_asyncio", "pytest_timeout", "pytest_mock", "hypothesis", "_hypothesis_pytestplugin", "nose", "nose2", "tox",
    "nox", "unittest2", "setuptools", "pkg_resources", "_distutils_hack", "pip",
})  # fmt: skip
SHADOWED_MODULES = RUNNER_MODULES | sys.stdlib_module_names
"""Modules that the test run imports: a file of such a name on the module path would be imported in their place."""

PROGRAMS = re.compile(
    r"(python|pypy|pip)[0-9.]*|py\.?test|tox|nox|coverage|uvx?|poetry|pdm|hatch|make|env|(ba|da|z|k|a)?sh|busybox|git"
)
"""Programs with which tests are run: one of such a name in the work tree may come before theirs on ``PATH``."""

MODULE_SUFFIXES = frozenset(
    {"", ".pyd", *(suffix[suffix.rfind(".") :] for suffix in importlib.machinery.all_suffixes())}
)
"""Last suffix of what can be imported by the first part of its name; a folder has none."""

TEST_FOLDERS = ("tests", "test", "testing")
"""Names of folders that hold tests and what tests use, the surest first: ``numpy/testing`` is a library."""

TEST_FILE = "it is a test file of the task's"
IN_THE_WAY = "it takes the place of a folder with files of the task's"
NAMED_ALIKE = "a report would name its tests like the task's own"
TEST_PACKAGE = "it makes a package of a folder of tests, changes it or unmakes it"
SUPPORT = "the task's tests use it"
OWN_TEST = "only the task's own tests run"
PROGRAM = "it would be run in place of a program that runs the tests"
SHADOWS = "it would be imported in place of a module that the tests or their runner use"
VARIABLES = "it sets the environment in which tests run"
ROOT = "it would make a folder of tests the root of the test run"


@dataclass(frozen=True)
class Split:
    """A patch, divided.

    Attributes:
        applied: What is written into the grading sandbox.
        rolled_back: Path → why it, or a part of it, is the task's own instead.
    """

    applied: tuple[Change, ...] = ()
    rolled_back: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ownership:
    """Decides for one task.

    Attributes:
        pristine: The pristine work tree.
        test_files: Files that hold the task's tests, relative to the work tree.
        class_names: Names of their modules and classes in a report.
        run: What the task says of its test run.
        editable: Files and folders that the task leaves to the agent.
    """

    pristine: Path
    test_files: frozenset[str] = frozenset()
    class_names: frozenset[str] = frozenset()
    run: DeclaredRun = field(default_factory=DeclaredRun)
    editable: frozenset[str] = frozenset()

    @classmethod
    def of(cls, task: Task, pristine: Path) -> "Ownership":
        """The files that a specification lists, those that its test ids name, and what its command runs."""
        if not isinstance(task.tests, TestSpec):  # a script's own files lie elsewhere
            return cls(pristine, editable=frozenset(task.editable))
        spec = task.tests
        ids = (*spec.fail_to_pass, *spec.pass_to_pass)
        files = frozenset((*spec.test_files, *(test.partition("::")[0] for test in ids)))
        names = frozenset((*map(dotted, files), *(junit_key(test)[0] for test in ids)))
        return cls(pristine, files, names, DeclaredRun.of(spec.command, pristine), frozenset(task.editable))

    def split(self, patch: Patch) -> Split:
        """Divide a patch into what is applied and what is rolled back; of a configuration file it may be some of each.

        Raises:
            OSError: The pristine tree cannot be read.
        """
        applied, rolled_back = [], {}
        for change in patch.changes:
            kept, reason = self._part(change)
            if kept is not None:
                applied.append(kept)
            if reason is not None:
                rolled_back[change.path] = reason
        return Split(tuple(applied), rolled_back)

    def owns(self, change: Change) -> str | None:
        """Why `change` would alter what is the task's own, ``None`` where it does not; parts of files are not told."""
        return None if self._is_editable(change.path) else next(self._reasons(change), None)

    def _is_editable(self, path: str) -> bool:
        return any(is_at_or_below(path, place) for place in self.editable)

    def _part(self, change: Change) -> tuple[Change | None, str | None]:
        reason = self.owns(change)
        if reason is not None:
            return None, reason
        if PurePosixPath(change.path).name not in MERGED or self._is_editable(change.path):
            return change, None
        file = self.pristine / change.path
        return merge(change, file.read_bytes() if file.is_file() and not file.is_symlink() else None)

    def _reasons(self, change: Change) -> Iterator[str]:
        path = PurePosixPath(change.path)
        if not CONFIGURATION.isdisjoint(path.parts) or not MERGED.isdisjoint(path.parts[:-1]):
            yield DECIDES
        if not ENVIRONMENT.isdisjoint(path.parts):
            yield VARIABLES
        if any(is_at_or_below(change.path, file) for file in self.test_files):
            yield TEST_FILE
        if any(is_at_or_below(change.path, file) for file in self.run.files):
            yield DECIDES
        if self._is_program(path, change):
            yield PROGRAM
        if change.kind != "deleted" and self._replaces_own_folder(path):
            yield IN_THE_WAY
        if change.kind != "deleted" and self._is_reported_as_own(change.path):
            yield NAMED_ALIKE
        yield from self._about_tests(path, change)
        if any(self._shadows(PurePosixPath(*path.parts[: depth + 1])) for depth in range(len(path.parts))):
            yield SHADOWS

    def _is_program(self, path: PurePosixPath, change: Change) -> bool:
        runs = change.kind == "symlink" or change.executable
        return (runs and PROGRAMS.fullmatch(path.name) is not None) or change.path in self.run.programs

    def _about_tests(self, path: PurePosixPath, change: Change) -> Iterator[str]:
        """Reasons that have to do with the folders of the tests."""
        is_new = not self._is_taken(path)
        in_support = any(is_at_or_below(change.path, folder) for folder in self._support)
        if path.name == "__init__.py" and self._is_test_folder(path.parent):
            if is_new or change.kind == "deleted" or in_support:
                yield TEST_PACKAGE
        elif in_support and not is_new:
            yield SUPPORT
        elif in_support and path.suffix == ".py" and (path.stem.startswith("test_") or path.stem.endswith("_test")):
            yield OWN_TEST
        if (
            path.name in {"pyproject.toml", "setup.py"}
            and len(path.parts) > 1
            and self._is_test_folder(path.parent)
            and (is_new or change.kind != "file")
        ):
            yield ROOT

    def _is_taken(self, path: PurePosixPath) -> bool:
        """Whether the pristine tree has something at `path`, or a file or link where `path` needs a folder."""
        above = (self.pristine.joinpath(*path.parts[:depth]) for depth in range(1, len(path.parts)))
        return os.path.lexists(self.pristine / path) or any(
            os.path.lexists(place) and (place.is_symlink() or not place.is_dir()) for place in above
        )

    @cached_property
    def _support(self) -> frozenset[str]:
        """The topmost folders with tests and what they use, by their names, on the ways to the task's test files."""
        found = set()
        for file in self.test_files:
            parts = PurePosixPath(file).parts[:-1]
            name = next((name for name in TEST_FOLDERS if name in parts), None)
            if name is not None:
                found.add("/".join(parts[: parts.index(name) + 1]))
        return frozenset(found)

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
            and any(inner.name in CONFIGURATION | MERGED | ENVIRONMENT for inner in folder.rglob("*"))
        )

    def _shadows(self, path: PurePosixPath) -> bool:
        """Whether `path` is new and would be imported in place of a module that the test run uses.

        Only a folder that the pristine tree or a test file brings can be on the module path, and only if it is no
        package or the task puts it there.
        """
        folder = self.pristine / path.parent
        if (self.pristine / path).exists() or not (folder.is_dir() or self._is_test_folder(path.parent)):
            return False
        if path.suffix not in MODULE_SUFFIXES:
            return False
        module = path.name.split(".", 1)[0]
        parent = str(path.parent)
        if parent not in self._used:
            self._used[parent] = frozenset(self._modules_of_tests(parent))
        if module in self._used[parent]:
            return True
        on_path = parent in self.run.module_folders or not (folder / "__init__.py").is_file()
        return module in SHADOWED_MODULES and on_path

    @cached_property
    def _used(self) -> dict[str, frozenset[str]]:
        """Folder → its `_modules_of_tests`, once looked up."""
        return {}

    def _modules_of_tests(self, folder: str) -> Iterable[str]:
        """Modules in a folder that the task's tests are, or that they use."""
        tests = {PurePosixPath(file).stem for file in self.test_files if str(PurePosixPath(file).parent) == folder}
        if any(is_at_or_below(folder, support) for support in self._support):
            tests |= {path.stem for path in (self.pristine / folder).glob("*.py")}
        return tests

    def _is_test_folder(self, path: PurePosixPath) -> bool:
        """Whether a test file lies somewhere below `path`."""
        return any(is_at_or_below(file, str(path)) for file in self.test_files)


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; ``.`` is the work tree."""
    return folder in (".", path) or path.startswith(f"{folder}/")
