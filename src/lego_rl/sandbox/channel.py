"""The host's end of the socket to the first process of a sandbox (``inside.py``).

Invariant: each request has a reply socket of its own, so that requests do not wait for each other. No reply is trusted:
where there is none, or none that a first process sends, the sandbox has died, whatever it holds.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Sequence

from lego_rl.errors import SandboxError
from lego_rl.sandbox.open_files import allow_enough
from lego_rl.sandbox.output import OutputPipe, readable_copy
from lego_rl.sandbox.readable import first_readable

REPLY_BYTES = 4096


class SandboxDied(Exception):
    """The sandbox gave no reply that can be one: killed by the host, by its own limits, or no longer what it was."""


class Channel:
    """Requests to one sandbox.

    Args:
        control: The host's end of the control socket.
    """

    def __init__(self, control: socket.socket) -> None:
        allow_enough()
        control.setblocking(False)
        self._control = control
        self._turn = asyncio.Lock()

    async def ready(self) -> bool:
        """Wait for the first process; false where it died before it was ready."""
        try:
            return await asyncio.get_running_loop().sock_recv(self._control, 1) == b"\0"
        except ConnectionError:
            return False

    async def send(self, fields: list[str], descriptors: list[int]) -> socket.socket:
        """Send a request with some descriptors; the caller keeps and closes its own copies.

        Returns:
            The socket on which the reply will come.

        Raises:
            SandboxDied: There is nobody to send it to.
        """
        loop = asyncio.get_running_loop()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        body = b"\0".join(os.fsencode(field) for field in fields)
        with theirs:
            try:
                async with self._turn:
                    socket.send_fds(self._control, [struct.pack("!I", len(body))], [*descriptors, theirs.fileno()])
                    await loop.sock_sendall(self._control, body)
            except OSError as error:
                mine.close()
                raise SandboxDied("the sandbox no longer answers") from error
            except BaseException:
                mine.close()
                raise
        mine.setblocking(False)
        return mine

    async def reply(self, answer: socket.socket) -> bytes:
        """The one message of a reply.

        Raises:
            SandboxDied: The sandbox ended first.
        """
        with answer:
            try:
                message = await asyncio.get_running_loop().sock_recv(answer, REPLY_BYTES)
            except OSError as error:
                raise SandboxDied("the sandbox ended") from error
        if not message:
            raise SandboxDied("the sandbox ended")
        return message

    async def status(self, answer: socket.socket) -> int:
        """The exit status of a process as shells count: 128 + n for signal n.

        Raises:
            SandboxDied: The sandbox ended first, or replied with no exit status.
        """
        message = await self.reply(answer)
        try:
            code = os.waitstatus_to_exitcode(struct.unpack("!i", message)[0])
        except (struct.error, ValueError) as error:
            raise SandboxDied("the sandbox sent no exit status") from error
        return code if code >= 0 else 128 - code

    async def run(self, fields: list[str], stdin: bytes, pipes: Sequence[OutputPipe]) -> int:
        """Send a request with standard input and output pipes; the exit status of what it started.

        Raises:
            SandboxDied: The sandbox ended first, or replied with no exit status.
        """
        source = readable_copy(stdin)
        try:
            answer = await self.send(fields, [source, *(pipe.theirs for pipe in pipes)])
        finally:
            os.close(source)
            for pipe in pipes:
                pipe.handed_over()
        return await self.status(answer)

    async def listener(self, port: int, address: str) -> socket.socket:
        """A socket that listens on the sandbox's own loopback.

        Raises:
            SandboxError: The port is taken.
            SandboxDied: The sandbox ended first, or what came back is not such a socket.
        """
        answer = await self.send(["listen", str(port), address], [])
        with answer:
            await first_readable(answer)
            try:
                message, descriptors, _, _ = socket.recv_fds(answer, REPLY_BYTES, 1)
            except OSError as error:
                raise SandboxDied("the sandbox ended") from error
        if descriptors:
            return _as_listener(descriptors[0], (address, port))
        if not message:
            raise SandboxDied("the sandbox ended")
        raise SandboxError(
            f"cannot listen on {address}:{port} in the sandbox: {message.decode(errors='replace')}",
            "let nothing in the sandbox listen there before the host does",
        )

    def close(self) -> None:
        """Hang up; the sandbox's first process ends at that, and everything in it with it."""
        self._control.close()


def _as_listener(descriptor: int, address: tuple[str, int]) -> socket.socket:
    """A descriptor that came out of the sandbox, if it is a listener on its loopback.

    Raises:
        SandboxDied: It is anything else.
    """
    try:
        server = socket.socket(fileno=descriptor)
    except OSError as error:
        os.close(descriptor)
        raise SandboxDied("the sandbox gave something else than a socket") from error
    try:
        listens = server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if not listens or server.family != socket.AF_INET or server.getsockname() != address:
            raise SandboxDied(f"the sandbox gave no listener on {address[0]}:{address[1]}")
        server.setblocking(False)
    except BaseException:
        server.close()
        raise
    return server
