"""Processes that outlive their sandbox's owner for a moment: they are dying, and may still write.

Invariant: only a process in whose mount namespace a folder of a dead owner itself is bound somewhere is killed: what is
in a sandbox. The overlay of a container's work tree proves nothing. A daemon mounts it where everybody on the machine
sees it, and leaves it there if it dies.

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
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):  # it ends meanwhile, or is another user's
            bound = (line.split()[3] for line in path.read_bytes().splitlines())
            if any(not names.isdisjoint(folder.split(b"/")) for folder in bound):
                found.append(int(path.parent.name))
    return found
