"""One process at a time.

Invariant: a lock is held by an open file, so the system lifts it when its process ends, however it ends; a lock file
that lies around means nothing.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from lego_rl.errors import RunError


def lock(handle: int, path: Path) -> None:
    """Lock an open file until it is closed.

    Args:
        handle: Its file descriptor.
        path: Its name, for people.

    Raises:
        RunError: Another process holds the lock.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunError(
            f"another process is writing {path}", "wait for it, stop it, or choose another run directory"
        ) from error


class LockedFolder:
    """A folder that no other process works in; made where it does not exist. Use it as a context manager.

    Args:
        path: The folder.

    Raises:
        RunError: Another process works in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        file = path / "lock"
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            lock(self._file, file)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
