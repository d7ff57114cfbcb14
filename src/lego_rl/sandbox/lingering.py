"""Processes that outlive their sandbox's owner for a moment: they are dying, and may still write.

Invariant: only a process that is in a dead owner's sandbox is killed (`processes.users_of`).
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from lego_rl.sandbox.processes import users_of

END_SECONDS = 5.0
"""How long the kernel may take to end them; what is left after that is left to the next one."""
PAUSE_SECONDS = 0.01


def end_users(folders: Iterable[str]) -> None:
    """Kill whatever has one of some folders mounted, and wait until it is gone.

    Args:
        folders: Names that no other folder has.
    """
    names = list(folders)
    deadline = time.monotonic() + END_SECONDS
    while names and (users := users_of(names)) and time.monotonic() < deadline:
        for pid in {pid for family in users.values() for pid in family}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
