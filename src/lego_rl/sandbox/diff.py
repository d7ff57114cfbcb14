"""The agent's change on this machine, from the upper layer of its work tree's overlay.

Invariant: the layer is read when everything that could write to it is dead, and modes that would keep an ordinary user
out of its own files hide nothing. What a patch takes is `Comparison`'s to say.
"""

import os
import stat
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.comparison import Comparison, Found
from lego_rl.sandbox.overlay import is_opaque, is_whiteout
from lego_rl.sandbox.verdict import Patch


@dataclass(frozen=True)
class OverlaySnapshot:
    """The upper layer of a work tree's overlay, written by a sandbox that is dead.

    Attributes:
        upper: The layer's folder on the host.
        git_dirs: Paths of the git directories that the sandbox was shown in its work tree, under whatever names. The
            pristine tree has none of them, and the layer only what was changed in them.
    """

    upper: Path
    git_dirs: frozenset[str] = frozenset()

    def diff(self, pristine: Path) -> Patch:
        """What the work tree changed of the pristine one; a rename is a deletion and an addition.

        Args:
            pristine: The overlay's lower layer.

        Raises:
            SandboxError: The agent left more than can be looked at in `DIFF_SECONDS`.
        """
        layer = _UpperLayer(self.upper)
        return Comparison(layer, pristine, self.git_dirs).patch(layer.content)


class _UpperLayer:
    """See `LeftTree`. The layer has what was changed only, and says in its own ways what was deleted."""

    def __init__(self, upper: Path) -> None:
        self._upper = upper

    def names(self, folder: str) -> Set[str]:
        place = self._upper / folder
        _make_accessible(place, os.R_OK | os.X_OK, 0o700)
        return dict.fromkeys(sorted(path.name for path in place.iterdir())).keys()

    def hides(self, folder: str) -> bool:
        return is_opaque(self._upper / folder)

    def found(self, path: str) -> Found:
        place = self._upper / path
        status = place.lstat()
        if is_whiteout(place, status):
            return Found(path, "deleted")
        if stat.S_ISDIR(status.st_mode):
            return Found(path, "directory")
        if stat.S_ISLNK(status.st_mode):
            return Found(path, "symlink", status.st_size)
        if stat.S_ISREG(status.st_mode):
            return Found(path, "file", status.st_size, bool(status.st_mode & stat.S_IXUSR))
        return Found(path, "special")

    def is_as(self, found: Found, lower: Path) -> bool:
        return self.content(found) == (os.fsencode(lower.readlink()) if found.kind == "symlink" else lower.read_bytes())

    def content(self, found: Found) -> bytes:
        """Of a file, or the target of a link."""
        place = self._upper / found.path
        if found.kind == "symlink":
            return os.fsencode(place.readlink())
        _make_accessible(place, os.R_OK, 0o600)
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            return stream.read()


def _make_accessible(path: Path, wanted: int, mode: int) -> None:
    """Undo a mode that would keep an ordinary user out of its own file; nobody else writes here any more."""
    with suppress(PermissionError):
        if not os.access(path, wanted, follow_symlinks=False):
            path.chmod(mode)
