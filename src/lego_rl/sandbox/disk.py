"""How much room a disk has."""

import os
from pathlib import Path


def free_bytes(folder: Path) -> int:
    """Room on the disk that a folder is on, as an ordinary user may have it."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def existing(path: Path) -> Path:
    """A path, or where there is nothing its nearest parent."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
