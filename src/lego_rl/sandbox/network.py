"""The hosts that a task's tests may reach, brought into a sandbox that has no route.

Invariant: a relay connects to the hosts and ports that the task names and to nothing else, never to an address of this
machine, to one of its link or to a cloud's metadata service (`reachable`), unless the recipe itself says that a service
is there (`sandbox.services`). It ends with its sandbox. An agent phase has none.

Each name stands in the sandbox's ``/etc/hosts`` with an address of its own on the sandbox's loopback. Sockets that
listen there are bound inside and handed to the host, as the gateway's is, and the host relays what connects to them.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from lego_rl.sandbox.reachable import may_be_reached
from lego_rl.sandbox.system import ETC
from lego_rl.tasks.network import NamedHosts

MAX_CONNECTIONS = 64
"""Of one sandbox at one time, fewer where file handles are few; more are closed at once."""
FEWEST_CONNECTIONS = 4
SHARE_OF_HANDLES = 0.25
"""What the relays of this process share of its file handles, each as much as the others; a connection takes two."""
CONNECT_SECONDS = 10.0
PIECE_BYTES = 1 << 16

type Listen = Callable[[int, str], Awaitable[socket.socket]]
"""See `Sandbox.listen`."""

_log = logging.getLogger(__name__)


class RelayRefusedError(OSError):
    """A name leads to an address that no relay connects to."""


def loopback_addresses(network: NamedHosts) -> dict[str, str]:
    """Host name → its address inside."""
    return {name: f"127.0.0.{number}" for number, name in enumerate(network.hosts, start=2)}


def write_hosts(path: Path, network: NamedHosts) -> None:
    """Write a sandbox's ``/etc/hosts``, for everybody in it to read."""
    names = "".join(f"{address} {name}\n" for name, address in loopback_addresses(network).items())
    path.write_text(ETC["hosts"] + names)
    path.chmod(0o644)


class Relay:
    """Serves the named hosts of one sandbox; made by `open`, ended by `close`.

    Args:
        services: ``HOST:PORT`` as the task names it → ``ADDRESS:PORT`` where it is.
    """

    in_use: ClassVar[set["Relay"]] = set()
    """All that are open in this process."""

    def __init__(self, services: Mapping[str, str]) -> None:
        self._services = services
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, listen: Listen, network: NamedHosts, services: Mapping[str, str]) -> "Relay":
        """Listen inside a sandbox for every host and port.

        Raises:
            SandboxError: A port cannot be bound.
        """
        relay = cls(services)
        cls.in_use.add(relay)
        try:
            for name, address in loopback_addresses(network).items():
                for port in network.ports:
                    serve = partial(relay._accepted, name, port)
                    relay._servers.append(await asyncio.start_server(serve, sock=await listen(port, address)))
        except BaseException:
            await relay.close()
            raise
        return relay

    async def close(self) -> None:
        """Hang up everywhere. Calling it again does nothing."""
        Relay.in_use.discard(self)
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= connections_each(len(Relay.in_use)):
            writer.close()
            return
        self._connections.add(task)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                far_reader, far_writer = await self._connect(name, port)
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                far_writer.close()
        except OSError as error:  # a TimeoutError is one, too
            _log.info("a connection of tests to %s:%d failed: %s", name, port, error)
        except asyncio.CancelledError:
            pass  # only `close` cancels, and it waits for nothing but the end
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, name: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = self._services.get(f"{name}:{port}")
        if place is not None:
            host, _, number = place.rpartition(":")
            return await asyncio.open_connection(host, int(number))
        found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
        # The very address that was looked at: a name may stand for another one the next time it is asked for.
        for address in (str(entry[4][0]) for entry in found):
            if may_be_reached(address):
                with suppress(OSError):
                    return await asyncio.open_connection(address, port)
        raise RelayRefusedError(f"{name} has no address that answers and may be reached")


def connections_each(relays: int) -> int:
    """Most connections of each of several relays: tested code may not use up the handles that other trials need."""
    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if handles == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(FEWEST_CONNECTIONS, min(MAX_CONNECTIONS, int(SHARE_OF_HANDLES * handles) // (2 * max(1, relays))))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes until one side ends or breaks; the other is told so."""
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
