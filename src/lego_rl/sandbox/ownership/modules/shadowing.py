"""Which new files would be imported in place of a module that the test run uses.

Invariant: what cannot be imported in place of anything is left to the agent, and that is how Python's own finders have
it: a folder is a package only by an ``__init__`` in it, and without one never comes before a module of its name later
on the path; a file without a suffix is no module; nothing is imported from a folder that is not on the path.

A folder without an ``__init__`` is found where there is no module of its name, though, and what only other systems have
is asked for on all of them: ``ntpath`` tries ``from nt import …``, which would run a file of the folder ``nt``.
"""

import importlib.machinery
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.known.known_modules import (
    SHADOWED_MODULES,
    TRIED_BY_RUNNER,
    is_asked_for,
    may_be_lacking,
)
from lego_rl.sandbox.ownership.modules.module_path import ModulePath
from lego_rl.sandbox.ownership.modules.tests_side import TestsSide
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change

READ_BY_NAME = ("conftest", "noxfile", "sitecustomize", "toxfile", "usercustomize")
"""Modules that decide how tests run, and are the task's own wherever they are."""

SOURCE_SUFFIXES = frozenset({*importlib.machinery.SOURCE_SUFFIXES, *importlib.machinery.BYTECODE_SUFFIXES})
EXTENSION_SUFFIXES = frozenset({".so", ".pyd"})
"""Last suffix of a compiled module; what is before it depends on the interpreter."""


@dataclass(frozen=True)
class Shadowing:
    """Decides for one task.

    Attributes:
        pristine: The pristine work tree.
        path: Where modules of the test run can lie.
        own: Files of the task that are modules of its test run.
        support: Folders whose modules the tests use.
        shipped: Files in them that are product code.
        installed: Modules that the image has outside of the work tree, of those in `asked`.
        run_imports: Modules that the command, or what it runs, imports by name.
    """

    pristine: Path
    path: ModulePath
    own: frozenset[str] = frozenset()
    support: frozenset[str] = frozenset()
    shipped: frozenset[str] = frozenset()
    installed: frozenset[str] = frozenset()
    run_imports: frozenset[str] = frozenset()

    _known: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    def reason(self, change: Change, *, is_new: bool) -> Reason | None:
        """Why something that a change adds would come before what the test run uses; ``None`` where it would not."""
        above, _, name = change.path.rpartition("/")
        if name.endswith(".pth"):
            return Reason.ADDS_TO_PATH if self.path.reads_path_files(above or ".") else None
        if not is_new:
            return None
        above, module = _module(change)
        if not module:
            return None
        if module in self._used_in(above) or any(self._is_run(*found) for found in self._names(above, module)):
            return Reason.SHADOWS
        return None

    def asked(self, change: Change) -> frozenset[str]:
        """Names by which the tests or their runner import a new module, where the work tree had none of the name.

        Where the image has such a module, the new one would be imported in its place.
        """
        above, module = _module(change)
        found = self._names(above, module) if module else ()
        return frozenset(dotted for dotted, folder in found if self._is_missing(dotted, folder))

    def _is_missing(self, dotted: str, folder: str) -> bool:
        if self._side.is_in_work_tree(dotted.partition(".")[0], folder):
            return False
        return dotted in TRIED_BY_RUNNER or self._side.imports(dotted)

    def _names(self, above: str, module: str) -> Iterator[tuple[str, str]]:
        """Dotted names by which a module in a folder can be imported, and the folder of the path for each."""
        place = PurePosixPath(above, module)
        for folder in map(str, place.parents):
            if self.path.has(folder):
                yield ".".join(place.relative_to(folder).parts), folder

    def _is_run(self, dotted: str, folder: str) -> bool:
        """Whether the tests or their runner import, or try to, what a new module would be."""
        if dotted in SHADOWED_MODULES and not self._is_module(folder, dotted):
            return True
        return is_asked_for(dotted) or dotted in self.installed or self._side.has_elsewhere(dotted, folder)

    @cached_property
    def _side(self) -> TestsSide:
        return TestsSide(
            pristine=self.pristine,
            path=self.path,
            own=self.own,
            support=self.support,
            shipped=self.shipped,
            run_imports=self.run_imports,
        )

    def takes_name(self, folder: str) -> bool:
        """Whether a new folder, whatever is in it, would be found where the test run asks for an absent module."""
        above, _, name = folder.rpartition("/")
        return may_be_lacking(name) and self.path.has(above or ".")

    def _used_in(self, folder: str) -> frozenset[str]:
        """Modules in a folder that the task's tests are, that they use, or that decide how they run."""
        if folder not in self._known:
            self._known[folder] = frozenset(self._modules_in(folder)) | self._own_in.get(folder, frozenset())
        return self._known[folder]

    @cached_property
    def _own_in(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for file in self.own:
            found.setdefault(file.rpartition("/")[0], set()).add(PurePosixPath(file).stem)
        return {folder: frozenset(names) for folder, names in found.items()}

    def _modules_in(self, folder: str) -> Iterator[str]:
        place = self.pristine / folder
        if not place.is_dir():
            return
        yield from (name for name in READ_BY_NAME if os.path.lexists(place / f"{name}.py"))
        if any(f"{folder}/".startswith(f"{support}/") for support in self.support):
            files = place.glob("*.py")
            yield from (file.stem for file in files if f"{folder}/{file.name}" not in self.shipped)

    def _is_module(self, folder: str, module: str) -> bool:
        """Whether the pristine tree has a module of that name there, which the agent may as well change."""
        place = self.pristine / folder
        return (place / f"{module}.py").is_file() or (place / module / "__init__.py").is_file()


def _module(change: Change) -> tuple[str, str]:
    """The folder and the name of the module that a file or link can be; no name where it can be none."""
    above, _, name = change.path.rpartition("/")
    module = _module_called(name, change)
    if module == "__init__":
        above, _, module = above.rpartition("/")
    return above, module


def _module_called(name: str, change: Change) -> str:
    """The module that a file or link of that name can be; empty where it can be none."""
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        return name if change.kind == "symlink" else ""  # it may lead to a package
    if f".{suffix}" in SOURCE_SUFFIXES:
        return "" if "." in stem else stem
    return stem.partition(".")[0] if f".{suffix}" in EXTENSION_SUFFIXES else ""
