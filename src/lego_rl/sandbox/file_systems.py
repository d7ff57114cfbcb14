"""The kinds of file systems that a path can be on."""

import re
from pathlib import Path

LOCAL_FILE_SYSTEMS = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""Those that one machine mounts at a time: an owner of another boot is dead there, for the machine was started anew."""

_OCTAL = re.compile(r"\\([0-7]{3})")
"""How ``mountinfo`` writes blanks, line ends and backslashes."""


def file_system(path: Path) -> str:
    """The kind of file system that an existing path is on, as proc(5) names it in ``mountinfo``."""
    place, best, kind = str(path.resolve()), -1, ""
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), left.split()[4])
        # Of two mounts at one place the later covers the earlier.
        if len(point) >= best and f"{place}/".startswith(f"{point.rstrip('/')}/"):
            best, kind = len(point), right.split()[0]
    return kind
