"""Processes that outlive their sandbox's owner for a moment: they are dying, and may still write.

Invariant: only a process in whose mount namespace a folder of a dead owner itself is bound somewhere is killed: what is
in a sandbox. The overlay of a container's work tree proves nothing. A daemon mounts it where everybody on the machine
sees it, and leaves it there if it dies. And whatever is mounted, nothing is killed that shares the mounts of whoever
reaps or of the machine's first process.

Source: proc(5), ``/proc/PID/mountinfo``: its fourth field is the folder that is bound, its last ones an overlay's.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

END_SECONDS = 5.0
"""How long the kernel may take to end them; what is left after that is left to the next one."""
PAUSE_SECONDS = 0.01


def end_users(folders: Iterable[str]) -> None:
    """Kill whatever has one of some folders mounted, and wait until it is gone.

    Args:
        folders: Names that no other folder has.
    """
    names = frozenset(os.fsencode(name) for name in folders)
    deadline = time.monotonic() + END_SECONDS
    while names and (users := _users(names)) and time.monotonic() < deadline:
        for pid in users:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)


def _users(names: frozenset[bytes]) -> list[int]:
    found = []
    shared = {_mounts_of("self"), _mounts_of("1")}
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):  # it ends meanwhile, or is another user's
            if (path.parent / "ns" / "mnt").stat().st_ino in shared:
                continue
            bound = (line.split()[3] for line in path.read_bytes().splitlines())
            if any(not names.isdisjoint(folder.split(b"/")) for folder in bound):
                found.append(int(path.parent.name))
    return found


def _mounts_of(process: str) -> int | None:
    """Which mount namespace a process is in; ``None`` for one of another user."""
    with suppress(PermissionError):
        return Path("/proc", process, "ns", "mnt").stat().st_ino
    return None
