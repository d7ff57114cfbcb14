"""Whose a temporary thing is: the process that made it, named so that any later process can tell whether it is dead.

Invariant: an owner is dead only where that is certain. A process that this one cannot see, because it is of another
machine, another boot or another namespace, may be alive; a name that holds no whole stamp names nobody.

Source: proc(5). The start time, in clock ticks since boot, tells a process from a later one of the same id, and does
not move when somebody sets the clock.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_STAMP = r"[1-9]\d*\.[1-9]\d*\.\d+\.\d+\.[0-9a-f]{12}"
_NAMED = re.compile(rf"(?:^|-)({_STAMP})-\w+\Z")
"""A stamp in the name of a file or folder; what follows it tells those of one owner apart."""


def own_stamp() -> str:
    """What tells this process from every other: id, start time, pid and time namespace, boot, with dots between.

    At most 63 characters of those that file names and the labels of containers may have.
    """
    text = Path("/proc/self/stat").read_text(errors="replace")  # a process may name itself in any bytes
    return f"{text.partition(' ')[0]}.{_start_time(text)}.{_here()}"


def is_dead(stamp: str) -> bool:
    """Whether the owner that a stamp names is dead for certain."""
    if re.fullmatch(_STAMP, stamp) is None:
        return False
    pid, started, here = stamp.split(".", 2)
    if here != _here():
        return False
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return _start_time(text) != started or _has_ended(text)


def is_of_another_boot(stamp: str) -> bool:
    """Whether the owner is of another boot: of another machine, or dead since this one was started."""
    return re.fullmatch(_STAMP, stamp) is not None and stamp.rpartition(".")[2] != _boot()


def named_in(name: str) -> str | None:
    """The stamp in the name of a file or folder, if it has a whole one."""
    found = _NAMED.search(name)
    return found.group(1) if found else None


@contextmanager
def owned_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """A temporary folder whose name says whose it is, from the moment it exists."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=f"{prefix}{own_stamp()}-") as folder:
        yield Path(folder)


def _has_ended(stat: str) -> bool:
    """Whether a process only waits for somebody to ask how it ended, by fields 3 and 20: no thread of it does anything.

    Where nobody asks, it may stay so for long.
    """
    fields = stat.rpartition(")")[2].split()
    return fields[0] in "ZX" and int(fields[17]) <= 1


def _start_time(stat: str) -> str:
    """Field 22 of ``/proc/PID/stat``; the second may hold anything, but ends with the last bracket."""
    return stat.rpartition(")")[2].split()[19]


def _here() -> str:
    """Where process ids and start times mean the same as here."""
    pid, time = (re.sub(r"\D", "", str(Path(f"/proc/self/ns/{name}").readlink())) for name in ("pid", "time"))
    return f"{pid}.{time}.{_boot()}"


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:12]
