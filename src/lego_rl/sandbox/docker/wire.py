"""HTTP to a daemon on this machine.

Invariant: all that is sent and received on a connection takes bounded time, also where a little of it comes again and
again.
"""

import http.client
import socket
import time
from pathlib import Path
from typing import Any, override


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket.

    Args:
        path: Of the socket.
        seconds: How long everything on it may take.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("docker")
        self._path = path
        self._seconds = seconds

    @override
    def connect(self) -> None:
        self.sock = _Bounded(self._seconds)
        self.sock.connect(str(self._path))


class _Bounded(socket.socket):
    """A Unix socket on which all waits together take no longer than some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(socket.AF_UNIX)
        self._end = time.monotonic() + seconds
        self.settimeout(seconds)

    def _left(self) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)

    @override
    def recv_into(self, *arguments: Any) -> int:
        self._left()
        return super().recv_into(*arguments)

    @override
    def sendall(self, *arguments: Any) -> None:
        self._left()
        super().sendall(*arguments)
