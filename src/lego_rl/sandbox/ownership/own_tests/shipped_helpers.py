"""Folders of tests, and what in one of a package's own is product code: what the package itself imports.

Invariant: only the pristine tree is asked. A file counts if a module of the same package that is neither a test nor in
a folder of tests imports it, at first or at second hand; so ``pkg/testing/compare.py`` is the agent's to mend where
``pkg`` ships it, and a helper that only tests use never is.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test, is_tests_folder
from lego_rl.sandbox.ownership.texts.python_imports import statements_in


def shipped(pristine: Path, folder: str) -> frozenset[str]:
    """Files of a folder of tests that are product code, relative to the work tree.

    Args:
        pristine: The pristine work tree.
        folder: One that is called like a folder of tests; outside of a package nothing in it is product code.
    """
    top = _top_package(pristine, folder)
    return frozenset() if top is None else frozenset(_Search(pristine, folder, top.parent).run(top))


def _top_package(pristine: Path, folder: str) -> PurePosixPath | None:
    """The outermost package that has `folder` as a package in it."""
    place, top = PurePosixPath(folder), None
    while str(place) != "." and (pristine / place / "__init__.py").is_file():
        top, place = place, place.parent
    return None if top is None or str(top) == folder else top


@dataclass
class _Search:
    pristine: Path
    folder: str
    root: PurePosixPath
    """What the names of modules start below."""

    def run(self, top: PurePosixPath) -> set[str]:
        found: set[str] = set()
        waiting = [file for file in self._importers(top) if self._mentions(file)]
        while waiting:
            for name in self._imported_by(waiting.pop()):
                new = set(self._files(name)) - found
                found |= new
                waiting.extend(new)
        return found

    def _importers(self, top: PurePosixPath) -> Iterator[str]:
        """Modules of the package that are no tests."""
        for place, folders, names in os.walk(self.pristine / top):
            folders[:] = [name for name in folders if not is_tests_folder(name)]
            inside = PurePosixPath(place).relative_to(self.pristine)
            yield from (str(inside / name) for name in names if name.endswith(".py") and not is_test(name))

    def _mentions(self, file: str) -> bool:
        try:
            return os.fsencode(PurePosixPath(self.folder).name) in (self.pristine / file).read_bytes()
        except OSError:
            return False

    def _imported_by(self, file: str) -> Iterator[str]:
        """Dotted names that a file imports, each of which may be a module or something in one."""
        try:
            text = (self.pristine / file).read_bytes()
        except OSError:
            return
        package = PurePosixPath(file).relative_to(self.root).parts[:-1]
        yield from filter(None, (name.resolved(package) for name in statements_in(text)))

    def _files(self, name: str) -> Iterator[str]:
        """The files of the folder that are run where a name is imported."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1) if all(parts) else ():
            place = self.root.joinpath(*parts[:end])
            for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
                inside = str(file).startswith(f"{self.folder}/") and not is_test(file.name)
                if inside and (self.pristine / file).is_file():
                    yield str(file)
