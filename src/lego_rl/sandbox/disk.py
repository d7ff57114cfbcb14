"""How much room a disk has, and whether a folder on it can be used."""

import os
from pathlib import Path

from lego_rl.errors import SandboxError


def free_bytes(folder: Path) -> int:
    """Room on the disk that a folder is on, as an ordinary user may have it."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def existing(path: Path) -> Path:
    """A path, or where there is nothing its nearest parent."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())


def check_state_folder(root: Path) -> None:
    """Make the folder in which sandboxes keep their files, and see that it can be written.

    Raises:
        SandboxError: It cannot be made or written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError("it cannot be written")
    except OSError as error:
        raise SandboxError(
            f"sandboxes cannot keep their files in {root}: {error}", "set sandbox.state to a folder of your own"
        ) from error
