"""A listener that holds a bounded number of connections, however many its sandbox opens.

Invariant: one listener never has more than `most` connections open, so a sandbox cannot use up the host's file handles
or memory and with them the other trials'. The rest wait in the kernel and are refused nothing: whoever is answered
while more than half of the places are taken is asked to hang up, so idle clients cannot keep the waiting ones out.
Nothing that a client does ends the listener: only the loss of its socket does, and a sandbox has no descriptor of it.
"""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import override

CONNECTIONS = 64
"""Most open connections of a listener: twice what a session answers at once."""

_SHARE_OF_HANDLES = 0.5
_FEWEST = 4
_PAUSE_SECONDS = 1.0
"""How long nothing is accepted after the host had no file handle or memory for a connection."""
_LOST = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK}
"""What accept(2) says of a socket that is closed or does not listen any more."""

_LOG = logging.getLogger(__name__)


def connections_each(listeners: int) -> int:
    """Most connections of each of several listeners, which together may hold half of this process's file handles.

    Where that is less than four each, it is four.
    """
    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if handles == resource.RLIM_INFINITY:
        return CONNECTIONS
    return max(_FEWEST, min(CONNECTIONS, int(_SHARE_OF_HANDLES * handles) // listeners))


class BoundedListener:
    """Accepts connections on a bound socket until it is closed.

    Args:
        sock: The socket; closed with the listener.
        protocol: Makes the protocol of a connection.
        most: Most connections open at once.

    Attributes:
        lost: Why nothing can be accepted any more; ``None`` as long as it can.
    """

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.Protocol], most: int) -> None:
        self._sock = sock
        self._protocol = protocol
        self._most = most
        self.lost: OSError | None = None
        self._open = 0
        self._places = asyncio.Semaphore(most)
        sock.setblocking(False)
        sock.listen(most)
        self._accepting = asyncio.create_task(self._accept())

    @property
    def is_crowded(self) -> bool:
        """Whether more than half of the places are taken."""
        return 2 * self._open > self._most

    async def close(self) -> None:
        """Accept nothing more; connections that are open stay so."""
        self._accepting.cancel()
        try:
            await asyncio.wait({self._accepting})  # unlike awaiting it, this leaves the caller's own cancellation alone
        finally:
            self._sock.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                connection = await self._next()
            except OSError as error:
                self.lost = error
                _LOG.error("the listener of a session is lost: %s", error)
                return
            self._open += 1
            try:
                await loop.connect_accepted_socket(lambda: _Counted(self._protocol(), self._gone), connection)
            except OSError:  # of this one connection, before its protocol heard of it
                connection.close()
                self._gone()

    async def _next(self) -> socket.socket:
        """The next connection. There is no pause between taking it and returning it, so that none gets lost.

        Raises:
            OSError: There will be none: the socket is lost.
        """
        while True:
            try:
                return self._sock.accept()[0]
            except BlockingIOError:
                await _readable(self._sock)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno in _LOST:
                    raise
                # The host has no handle or memory left; the socket stays readable, so trying at once would spin.
                await asyncio.sleep(_PAUSE_SECONDS)

    def _gone(self) -> None:
        self._open -= 1
        self._places.release()


class _Counted(asyncio.Protocol):
    """Passes everything on, and says when the connection is gone."""

    def __init__(self, inner: asyncio.Protocol, gone: Callable[[], None]) -> None:
        self._inner = inner
        self._gone = gone

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        self._inner.connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    descriptor = sock.fileno()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        with suppress(ValueError):  # closed meanwhile
            loop.remove_reader(descriptor)
