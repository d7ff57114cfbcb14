"""What is mounted, as the kernel tells it.

Source: proc(5), ``/proc/PID/mountinfo``. Blanks, line ends and backslashes in a path are written in octal there; names
of any bytes come out as Python has them (`os.fsdecode`).
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OWN = Path("/proc/self/mountinfo")

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class Mounted:
    """One mount.

    Attributes:
        device: Device number of its files.
        root: Which folder of the file system is mounted, as an absolute path in it.
        point: Where, for the process whose table it is.
        kind: Of the file system.
        options: Of the file system.
    """

    device: int
    root: str
    point: str
    kind: str
    options: tuple[str, ...]


def table_of(process: int | str) -> Path:
    """The table of a process."""
    return Path(f"/proc/{process}/mountinfo")


def mounted(table: Path = OWN) -> Iterator[Mounted]:
    """The mounts of a process, each over those before it.

    Raises:
        OSError: The table cannot be read.
    """
    return parsed(table.read_bytes())


def parsed(table: bytes) -> Iterator[Mounted]:
    """The mounts in a table."""
    for line in table.splitlines():
        left, _, right = line.partition(b" - ")
        device, root, point = left.split(b" ")[2:5]
        kind, _, options = right.split(b" ")[:3]
        major, _, minor = device.partition(b":")
        yield Mounted(os.makedev(int(major), int(minor)), _path(root), _path(point), kind.decode(), _words(options))


def _path(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), field))


def _words(options: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(options).split(","))
