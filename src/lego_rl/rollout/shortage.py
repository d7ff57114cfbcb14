"""Whether the host itself has run out of something that every trial needs.

Invariant: no agent can bring a shortage about, nor can all of them together. The host is short of something only where
next to nothing is left of it and, with everything given back that sandboxes hold, there would still be less than a
single trial may use. It is looked for when the trial's own sandbox and session are gone. The error that the trial ended
with is no evidence, for an agent can fill a disk or hold connections open until the host meets the same error; what
cannot be measured is no evidence either.
"""

import errno
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lego_rl.sandbox.comparison import MAX_CHANGES
from lego_rl.sandbox.disk import existing, free_bytes
from lego_rl.sandbox.held import Held
from lego_rl.sandbox.inside_guard import OPEN_FILES
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.pace import TooMuchError

_MIB = 1 << 20
_GIVEN_BACK = ("socket:", "pipe:")
"""What a process has open for agents: their connections, and the output of what runs in a sandbox."""


@dataclass(frozen=True)
class Reserves:
    """With how little left the host counts as having run out.

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


def host_shortage(folders: Iterable[Path], held: Held, allowed: Limits, reserves: Reserves) -> Shortage | None:
    """What the host has run out of; ``None`` where it has enough of everything. It may take seconds.

    Args:
        folders: Where trials write on the host; one that does not exist stands for its nearest parent.
        held: What trials and their sandboxes hold for as long as they run.
        allowed: What the trial's sandbox may use.
        reserves: With how little left the host counts as having run out.
    """
    try:
        return next(_shortages(folders, held, allowed, reserves), None)
    except (TooMuchError, OSError):  # What cannot be measured, for whatever reason, is no evidence.
        return None


def _shortages(folders: Iterable[Path], held: Held, allowed: Limits, least: Reserves) -> Iterator[Shortage]:
    for folder in map(existing, folders):
        yield from _on_disk(folder, held, allowed, least)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and _left(lambda: limit - len(_open()), least.handles, _for_agents) is not None:
        yield Shortage("handles", f"this process has {len(_open())} of at most {limit} files open")
    if (handles := _left(_free_handles, least.handles, held.handles, OPEN_FILES)) is not None:
        yield Shortage("handles", f"the machine can have {handles} more files open")
    if (memory := _left(_available, least.memory_bytes, held.memory, allowed.memory_mb * _MIB)) is not None:
        yield Shortage("memory", f"the machine has {memory // _MIB} MiB of memory left")


def _on_disk(folder: Path, held: Held, allowed: Limits, least: Reserves) -> Iterator[Shortage]:
    device = folder.stat().st_dev
    free = _left(
        lambda: free_bytes(folder), least.disk_bytes, lambda: held.on_disk(device).size, allowed.disk_mb * _MIB
    )
    if free is not None:
        yield Shortage("disk", f"the disk that holds {folder} is full ({free // _MIB} MiB free)")
    if not os.statvfs(folder).f_files:  # Some file systems make inodes as they need them and say 0 of 0.
        return
    files = _left(lambda: os.statvfs(folder).f_favail, least.files, lambda: held.on_disk(device).count, MAX_CHANGES)
    if files is not None:
        yield Shortage("disk", f"the disk that holds {folder} has {files} inodes left")


def _left(look: Callable[[], int], least: int, held: Callable[[], int], enough: int = 0) -> int | None:
    """How much is left of something of which there would be too little with all given back; ``None`` if enough is.

    Args:
        look: How much is left now.
        least: What always has to be.
        held: How much would be given back.
        enough: What a trial may use of it.
    """
    before = look()
    if before >= least:
        return None
    given_back = held()
    after = look()  # For what was given back while it was counted.
    if after >= least or max(before, after) + given_back >= max(least, enough):
        return None
    return after


def _open() -> list[str]:
    """What this process has open."""
    folder = Path("/proc/self/fd")
    try:
        numbers = [path.name for path in folder.iterdir()]
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # All are taken, also the one for the folder.
        numbers = [str(number) for number in range(limit)]
    links = []
    for number in numbers:
        with suppress(FileNotFoundError):  # such as the folder's own
            links.append(str((folder / number).readlink()))
    return links


def _for_agents() -> int:
    return sum(link.startswith(_GIVEN_BACK) for link in _open())


def _free_handles() -> int:
    used, _, most = (int(word) for word in Path("/proc/sys/fs/file-nr").read_text().split())
    return most - used


def _available() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024
