"""Files that a sandbox has unlinked and still uses: they fill the disk, and no folder shows them.

Invariant: each such file is counted once, however many processes hold it. Files in memory (memfd, tmpfs) are not on the
disk, and are not counted. Two ways of holding a file show only to root or to nobody: a mapping whose descriptor is
closed, and a descriptor that lies in a socket's queue.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from lego_rl.sandbox.mountinfo import mounted, table_of
from lego_rl.sandbox.pace import Pace


def unlinked_size(family: Sequence[int], pace: Pace) -> int:
    """Bytes on disk of the unlinked files that the processes hold.

    Args:
        family: Process ids on the host, of one mount namespace; one that ends meanwhile is left out.
        pace: Bounds how many descriptors and mappings are looked at.

    Raises:
        TooMuchError: They hold more than that.
    """
    in_memory = _memory_devices(family[0])
    sizes: dict[tuple[int, int], int] = {}
    for pid in family:
        for path in chain(_descriptors(pid), _mappings(pid, pace)):
            pace.step()
            with suppress(OSError):
                status = os.stat(path)  # noqa: PTH116  # it goes through the link to the file itself
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev not in in_memory:
                    sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def _descriptors(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (entry.path for entry in entries)


def _mappings(pid: int, pace: Pace) -> Iterator[str]:
    with suppress(OSError), Path(f"/proc/{pid}/maps").open("rb") as lines:
        for line in lines:  # One by one: a process may have tens of thousands.
            pace.step()
            if line.endswith(b" (deleted)\n"):
                start, _, end = line.split(maxsplit=1)[0].decode().partition("-")
                yield f"/proc/{pid}/map_files/{int(start, 16):x}-{int(end, 16):x}"


def _memory_devices(pid: int) -> set[int]:
    """Device numbers of the file systems in memory that a process can have files on."""
    descriptor = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        devices = {os.fstat(descriptor).st_dev}
    finally:
        os.close(descriptor)
    with suppress(OSError):
        devices.update(mount.device for mount in mounted(table_of(pid)) if mount.kind == "tmpfs")
    return devices
