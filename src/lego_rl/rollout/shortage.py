"""Whether the host itself has run out of something that every trial needs.

Invariant: an agent cannot bring a shortage about. It is looked for when the trial's sandbox and session are gone, so
nothing that its agent still held is counted; the error that a trial ended with is no evidence, for an agent can fill a
disk or hold connections open until the host meets the same error.
"""

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_MIB = 1 << 20


@dataclass(frozen=True)
class Reserves:
    """With how little the host counts as having run out.

    Attributes:
        disk_bytes: Free space of a file system.
        files: Free inodes of a file system that counts them.
        handles: File handles that this process, and the whole machine, can still open.
        memory_bytes: Memory that the kernel can still give (``MemAvailable``).
    """

    disk_bytes: int = 16 * _MIB
    files: int = 64
    handles: int = 16
    memory_bytes: int = 64 * _MIB


@dataclass(frozen=True)
class Shortage:
    """What the host has run out of.

    Attributes:
        of: Which of its resources.
        found: What was measured, in one line.
    """

    of: Literal["disk", "memory", "handles"]
    found: str


def host_shortage(folders: Iterable[Path], reserves: Reserves | None = None) -> Shortage | None:
    """What the host has run out of; ``None`` where it has enough of everything.

    Args:
        folders: Where trials write on the host; one that does not exist stands for its nearest parent.
        reserves: With how little the host counts as having run out.
    """
    least = reserves or Reserves()
    try:
        found = (_disk(_existing(folder), least) for folder in folders)
        disk = next((each for each in found if each is not None), None)
        return disk or _handles(least) or _memory(least)
    except OSError as error:  # such as no handle left to count the handles with
        return Shortage("handles", f"the host cannot say what it has left ({error.strerror})")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _disk(folder: Path, least: Reserves) -> Shortage | None:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < least.disk_bytes:
        return Shortage("disk", f"the disk that holds {folder} is full ({free // _MIB} MiB free)")
    # Some file systems make inodes as they need them and say 0 of 0.
    if found.f_files and found.f_favail < least.files:
        return Shortage("disk", f"the disk that holds {folder} has {found.f_favail} inodes left")
    return None


def _handles(least: Reserves) -> Shortage | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    own = sum(1 for _ in Path("/proc/self/fd").iterdir())
    used, _, most = (int(word) for word in Path("/proc/sys/fs/file-nr").read_text().split())
    if limit != resource.RLIM_INFINITY and limit - own < least.handles:
        return Shortage("handles", f"this process has {own} of at most {limit} files open")
    if most - used < least.handles:
        return Shortage("handles", f"the machine has {used} of at most {most} files open")
    return None


def _memory(least: Reserves) -> Shortage | None:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    if available < least.memory_bytes:
        return Shortage("memory", f"the machine has {available // _MIB} MiB of memory left")
    return None
