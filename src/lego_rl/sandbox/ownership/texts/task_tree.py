"""A task's own files as its tests see them: the hidden ones over the pristine work tree.

Invariant: only what the task ships is read. What is larger than `MAX_TEXT_BYTES` is data and counts as empty.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.comparison import is_folder

MAX_TEXT_BYTES = 1 << 20
"""What is larger is data."""


@dataclass(frozen=True)
class TaskTree:
    """The files of a task.

    Attributes:
        pristine: The pristine work tree.
        hidden: Files that are laid over it for the tests; ``None`` where there are none.
    """

    pristine: Path
    hidden: Path | None = None

    def hidden_files(self) -> Iterator[str]:
        """Every hidden file and link."""
        if self.hidden is not None:
            places = (place for place in self.hidden.rglob("*") if not is_folder(place))
            yield from (place.relative_to(self.hidden).as_posix() for place in places)

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

    def leads_to_folder(self, path: str) -> bool:
        """Whether the work tree has a folder of that name, or a link to one; no word is too odd to be asked for."""
        return os.path.isdir(self.pristine / path)  # noqa: PTH112

    def files(self, folder: str, at_most: int) -> Iterator[str]:
        """The first files below a folder, hidden ones before the others, each once; links are not followed."""
        yield from islice(dict.fromkeys(islice(self._files(folder), 2 * at_most)), at_most)

    def _files(self, folder: str) -> Iterator[str]:
        for root in filter(None, (self.hidden, self.pristine)):
            for place, folders, names in os.walk(root / folder):
                folders.sort()
                inside = PurePosixPath(place).relative_to(root)
                yield from (str(inside / name) for name in sorted(names))

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
