"""What the running sandboxes of a state folder hold of this machine, whichever process started them.

Invariant: it is an upper bound, up to what no program can see (`unlinked`); what cannot be measured raises, and is
never taken for nothing. What a sandbox left that is still being removed counts as well.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.mountinfo import mounted, table_of
from lego_rl.sandbox.overlay import statuses
from lego_rl.sandbox.pace import Pace, TooMuchError
from lego_rl.sandbox.processes import hides, in_namespaces, proportional_kib, users_of
from lego_rl.sandbox.state import State
from lego_rl.sandbox.unlinked import unlinked_size


@dataclass(frozen=True)
class Files:
    """Bytes on a disk, and files."""

    size: int
    count: int


@dataclass(frozen=True)
class Held:
    """What is given back when every sandbox and every trial has ended.

    Attributes:
        state: Where sandboxes keep their files.
        beside: Further folders that are emptied when trials end.
    """

    state: State
    beside: tuple[Path, ...] = ()

    def on_disk(self, device: int) -> Files:
        """Files on the file system with a device number.

        Raises:
            TooMuchError: There are more than can be looked at, or some that cannot be looked at.
        """
        if hides(in_namespaces()):
            raise TooMuchError("a process does not show which files it holds")
        pace, size, count = Pace(), 0, 0
        written = [folder for run in self.state.sandboxes() for folder in run.written]
        for folder in (*written, *self.beside):
            with suppress(FileNotFoundError):
                if folder.stat().st_dev == device:
                    for status in statuses(folder, pace):
                        size += status.st_blocks * 512
                        count += 1
        return Files(size + sum(unlinked_size(family, pace) for family in self._families()), count)

    def memory(self) -> int:
        """Bytes, with those of files in memory.

        Raises:
            TooMuchError: There is more than can be looked at.
        """
        pace, own = Pace(), _groups_of(os.getpid())
        grouped: dict[Path, int] = {}
        alone = 0
        for family in self._families():
            groups = _groups_of(family[0])
            if groups is None or (own is not None and groups.groups == own.groups):
                alone += (proportional_kib(family, pace) << 10) + _in_temporary_files(family)
            else:
                grouped[groups.groups["memory"]] = _used(groups)
        return alone + sum(grouped.values())

    def handles(self) -> int:
        """Open files of all processes; one that several share is counted for each."""
        total = 0
        for family in self._families():
            for pid in family:
                with suppress(OSError):
                    total += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        return total

    def _families(self) -> Iterator[list[int]]:
        """The processes of each running sandbox."""
        yield from users_of(run.path.name for run in self.state.sandboxes()).values()


def _used(groups: Cgroups) -> int:
    """Bytes of memory; nothing of a group that is gone, for what it held is given back."""
    try:
        return groups.used()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        return 0


def _groups_of(pid: int) -> Cgroups | None:
    with suppress(OSError):
        return Cgroups.of(pid)
    return None


def _in_temporary_files(family: list[int]) -> int:
    """Bytes in the temporary file systems that processes of a sandbox have and this one has not."""
    own = {device for device, _ in _temporary_file_systems("self")}
    sizes: dict[int, int] = {}
    for pid in family:
        for device, point in _temporary_file_systems(pid):
            if device not in own and device not in sizes:
                with suppress(OSError):
                    found = os.statvfs(f"/proc/{pid}/root{point}")
                    sizes[device] = (found.f_blocks - found.f_bfree) * found.f_frsize
    return sum(sizes.values())


def _temporary_file_systems(pid: int | Literal["self"]) -> Iterator[tuple[int, str]]:
    """Device numbers and mount points."""
    with suppress(OSError):
        yield from ((mount.device, mount.point) for mount in mounted(table_of(pid)) if mount.kind == "tmpfs")
