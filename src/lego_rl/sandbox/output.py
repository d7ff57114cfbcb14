"""What a command writes, read as it comes and kept within bounds, so that output cannot fill the host's memory."""

import asyncio
import os
from collections.abc import Awaitable, Callable

READ_BYTES = 1 << 16

type Consumer = Callable[[bytes], Awaitable[None]]
"""Is given each piece that was read."""


class BoundedOutput:
    """Keeps the first and the last half of `limit` bytes, and counts what is between them."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    async def write(self, data: bytes) -> None:
        """Add what was read."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._half:
            self._trim()

    def text(self) -> str:
        """Everything kept, undecodable bytes replaced, with a line that says what was left out."""
        self._trim()
        middle = f"\n[... {self._dropped} bytes left out ...]\n".encode() if self._dropped else b""
        return bytes(self._head + middle + self._tail).decode(errors="replace")

    def _trim(self) -> None:
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess


class OutputPipe:
    """A pipe whose writing end goes into the sandbox.

    Attributes:
        theirs: The writing end; `handed_over` closes the host's copy of it.
    """

    def __init__(self, consumer: Consumer) -> None:
        mine, self.theirs = os.pipe2(os.O_CLOEXEC)
        self._task = asyncio.create_task(_pump(mine, consumer))
        self._open = True

    def handed_over(self) -> None:
        """The sandbox has its copy of the writing end."""
        if self._open:
            self._open = False
            os.close(self.theirs)

    async def ended(self) -> None:
        """Wait until nobody can write any more."""
        await asyncio.wait({self._task})

    async def drain(self, seconds: float | None) -> None:
        """Read to the end, but no longer than `seconds`: a process that was left behind may hold the pipe open.

        Raises:
            Exception: Whatever the consumer raised.
        """
        self.handed_over()
        done, _ = await asyncio.wait({self._task}, timeout=seconds)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task})  # which, unlike awaiting it, does not take the caller's own cancellation
            return
        self._task.result()


def readable_copy(content: bytes) -> int:
    """A new read-only descriptor of an anonymous file with `content`; the caller closes it."""
    writable = os.memfd_create("input", os.MFD_CLOEXEC)
    try:
        with os.fdopen(writable, "wb", closefd=False) as stream:
            stream.write(content)
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writable)


async def _pump(descriptor: int, consumer: Consumer) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while piece := await reader.read(READ_BYTES):
            await consumer(piece)
    finally:
        transport.close()
