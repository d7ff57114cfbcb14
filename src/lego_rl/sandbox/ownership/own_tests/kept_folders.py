"""Folders that stay folders: nothing else may take their place."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.comparison import is_folder
from lego_rl.sandbox.ownership.known.deciding_files import CONFIGURATION, ENVIRONMENT, MERGED


@dataclass(frozen=True)
class KeptFolders:
    """Those above tests, those on the module path, which a link could move, and those with files that decide.

    Attributes:
        pristine: The pristine work tree.
        on_path: Folders that are on the module path for certain.
        hidden: Files that are laid over the work tree for the tests.
        above: Folders above tests.
    """

    pristine: Path
    on_path: frozenset[str]
    hidden: frozenset[str]
    above: frozenset[str]

    def has(self, path: str) -> bool:
        """Whether a file or link at `path` would take the place of one."""
        folder = self.pristine / path
        return path in self._named or (
            is_folder(folder) and any(inner.name in CONFIGURATION | MERGED | ENVIRONMENT for inner in folder.rglob("*"))
        )

    @cached_property
    def _named(self) -> frozenset[str]:
        above = {str(place) for folder in self.on_path for place in PurePosixPath(folder, "x").parents}
        above.update(str(folder) for file in self.hidden for folder in PurePosixPath(file).parents)
        return self.above | above - {"."}
