"""What an overlay's upper layer says of the tree below it, read on the host.

Invariant: nothing of the sandbox that wrote it is executed, and no link in it is followed, to read it.

Source of the on-disk format: the kernel's Documentation/filesystems/overlayfs.rst. A deleted path is a character device
0/0 (or an empty file with the whiteout attribute); a folder that hides what is below it has the opaque attribute; the
attributes are in ``user.overlay.`` where the overlay was mounted in a user namespace, else in ``trusted.overlay.``.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lego_rl.sandbox.pace import Pace, TooMuchError

ATTRIBUTE_PREFIXES = ("user.overlay.", "trusted.overlay.")
BLOCK = 4096
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_VANISHED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors of a folder that is gone, with nothing, a file or a link in its place."""


def is_whiteout(path: Path, status: os.stat_result) -> bool:
    """Whether an upper layer's entry says that its path was deleted."""
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev == os.makedev(0, 0)
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and _attribute(path, "whiteout") is not None


def is_opaque(path: Path) -> bool:
    """Whether an upper layer's folder hides everything below it in the lower layer."""
    return _attribute(path, "opaque") == b"y"


class UnseenError(TooMuchError):
    """Something that a sandbox may have written cannot be looked at."""


def measure(layer: Path, limit: int, pace: Pace) -> int:
    """Size of a layer in bytes, each entry counted as a block at least; stops soon after `limit`.

    Raises:
        TooMuchError: It takes longer than a look may, or something in it cannot be looked at.
    """
    total = 0
    for status in statuses(layer, pace):
        total += max(BLOCK, status.st_blocks * 512)
        if total > limit:
            break
    return total


def statuses(folder: Path, pace: Pace) -> Iterator[os.stat_result]:
    """Of everything below a folder that sandboxes may still be writing to.

    Only what vanishes or moves away meanwhile is left out. A folder that its owner made unreadable is made readable
    again; whatever else is in the way of a look ends it, so that no sandbox can put it there to hide something. Links
    are not followed.

    Raises:
        UnseenError: Something is there and cannot be looked at, such as a folder nested beyond what a path names.
        TooMuchError: It takes longer than a look may.
    """
    folders = [folder]
    while folders:
        place = folders.pop()
        try:
            yield from _in_folder(place, folders, pace)
        except OSError as error:
            raise UnseenError(f"a folder cannot be looked at: {error.strerror}") from error


def _in_folder(folder: Path, found: list[Path], pace: Pace) -> Iterator[os.stat_result]:
    try:
        descriptor = _open_readable(folder)
    except OSError as error:
        if error.errno in _VANISHED:
            return
        raise
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                pace.step()
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        found.append(folder / entry.name)
                    yield status
    finally:
        os.close(descriptor)


def _open_readable(folder: Path) -> int:
    """A descriptor of a folder that can be listed and whose entries can be looked at."""
    try:
        descriptor = os.open(folder, _FOLDER)
        if os.access(".", os.R_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
            return descriptor
        os.close(descriptor)
    except PermissionError:
        pass
    _let_owner_read(folder)
    return os.open(folder, _FOLDER)


def _let_owner_read(folder: Path) -> None:
    """Give a folder's owner read and search permission, without following a link that took its place meanwhile."""
    descriptor = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IMODE(os.fstat(descriptor).st_mode) | 0o500)
    finally:
        os.close(descriptor)


def _attribute(path: Path, name: str) -> bytes | None:
    for prefix in ATTRIBUTE_PREFIXES:
        with suppress(OSError):
            return os.getxattr(path, prefix + name, follow_symlinks=False)
    return None
