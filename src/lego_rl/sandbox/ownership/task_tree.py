"""A task's own files as its tests see them: the hidden ones over the pristine work tree.

Invariant: only what the task ships is read. What is larger than `MAX_TEXT_BYTES` is data and counts as empty.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.ownership.module_path import MAX_TEXT_BYTES


@dataclass(frozen=True)
class TaskTree:
    """The files of a task.

    Attributes:
        pristine: The pristine work tree.
        hidden: Files that are laid over it for the tests; ``None`` where there are none.
    """

    pristine: Path
    hidden: Path | None = None

    def place(self, path: str) -> Path | None:
        """Where a file of the work tree lies; ``None`` where the task has none of that name."""
        for root in (self.hidden, self.pristine):
            # Not every word that is tried is a name that could be: pathlib would raise.
            if root is not None and os.path.isfile(root / path):  # noqa: PTH113
                return root / path
        return None

    def read(self, path: str) -> bytes:
        """The text of a file, empty where there is none."""
        place = self.place(path)
        try:
            return b"" if place is None or place.stat().st_size > MAX_TEXT_BYTES else place.read_bytes()
        except OSError:
            return b""

    def is_folder(self, path: str) -> bool:
        """Whether the work tree has a folder of that name."""
        return os.path.isdir(self.pristine / path)  # noqa: PTH112

    def files(self, folder: str, at_most: int) -> Iterator[str]:
        """The first files below a folder, relative to the work tree; links are not followed."""
        for root in filter(None, (self.hidden, self.pristine)):
            left = at_most
            for place, folders, names in os.walk(root / folder):
                folders.sort()
                inside = PurePosixPath(place).relative_to(root)
                for name in sorted(names)[:left]:
                    yield str(inside / name)
                left -= len(names)
                if left <= 0:
                    break

    def executed_by(self, name: str, folder: str) -> Iterator[str]:
        """The files that importing or running a module from a folder executes; none where the module is not there.

        Its packages' are among them, also an ``__init__.py`` that could be added to a folder without one.
        """
        place = PurePosixPath(folder, *name.split("."))
        own = [file for file in (f"{place}.py", f"{place}/__init__.py", f"{place}/__main__.py") if self.place(file)]
        yield from own
        if own:
            packages = [each for each in place.parents if each != PurePosixPath(folder) and each.is_relative_to(folder)]
            yield from (f"{package}/__init__.py" for package in packages)
