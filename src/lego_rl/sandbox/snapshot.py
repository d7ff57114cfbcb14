"""The work tree as a killed sandbox left it: an overlay's upper layer, read on the host.

Invariant: nothing of the sandbox is executed, and no link in it is followed, to read it.

Source of the on-disk format: the kernel's Documentation/filesystems/overlayfs.rst. A deleted path is a character device
0/0 (or an empty file with the whiteout attribute); a folder that hides what is below it has the opaque attribute; the
attributes are in ``user.overlay.`` where the overlay was mounted in a user namespace, else in ``trusted.overlay.``.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ATTRIBUTE_PREFIXES = ("user.overlay.", "trusted.overlay.")
BLOCK = 4096


@dataclass(frozen=True)
class Snapshot:
    """The upper layer of a work tree's overlay, written by a sandbox that is dead.

    Attributes:
        upper: The layer's folder on the host.
    """

    upper: Path


def is_whiteout(path: Path, status: os.stat_result) -> bool:
    """Whether an upper layer's entry says that its path was deleted."""
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev == os.makedev(0, 0)
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and _attribute(path, "whiteout") is not None


def is_opaque(path: Path) -> bool:
    """Whether an upper layer's folder hides everything below it in the lower layer."""
    return _attribute(path, "opaque") == b"y"


def measure(layer: Path, limit: int) -> int:
    """Size of a layer in bytes, each entry counted as a block at least; stops soon after `limit`.

    The sandbox may still be writing: what vanishes meanwhile is not counted.
    """
    total = 0
    folders = [layer]
    while folders and total <= limit:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    total += max(BLOCK, status.st_blocks * 512)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(Path(entry.path))
    return total


def _attribute(path: Path, name: str) -> bytes | None:
    for prefix in ATTRIBUTE_PREFIXES:
        with suppress(OSError):
            return os.getxattr(path, prefix + name, follow_symlinks=False)
    return None
