"""The kinds of file systems that a path can be on."""

from pathlib import Path

from lego_rl.sandbox.mountinfo import mounted
from lego_rl.sandbox.paths import is_at_or_below

LOCAL_FILE_SYSTEMS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""Those that one machine mounts at a time: an owner of another boot is dead there, for the machine was started anew."""


def file_system(path: Path) -> str:
    """The kind of file system that an existing path is on, as proc(5) names it in ``mountinfo``."""
    place, best, kind = str(path.resolve()), -1, ""
    for mount in mounted():
        # Of two mounts at one place the later covers the earlier.
        if len(mount.point) >= best and is_at_or_below(place, mount.point):
            best, kind = len(mount.point), mount.kind
    return kind
