"""What stands on the host beside a trial under attack, each with a secret: files, servers, processes, shared memory.

Invariant: an attack is told where everything is, and nothing of what it holds; all of it is gone afterwards.
"""

import asyncio
import ctypes
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import override

from lego_rl.errors import SandboxError
from lego_rl.selfcheck.target import Secrets
from lego_rl.threads import in_thread

VARIABLE = "LEGO_RL_SELFCHECK_SECRET"
SECRET_FILE, DOCKER_SOCKET, WRITABLE = "secret.txt", "docker.sock", "writable"
BYSTANDER, NEIGHBOUR = "lego-rl-bystander", "lego-rl-neighbour"
"""First arguments of a process of the host and of one in another trial's sandbox; their second ones are secrets."""
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0
SHARED_BYTES = 4096


@dataclass(frozen=True)
class Bystanders:
    """What an attack may know of the host.

    Attributes:
        folder: Readable by everybody: `SECRET_FILE`, `DOCKER_SOCKET`, and `WRITABLE`, where everybody may write.
        tcp: Port of a server on the host's loopback.
        udp: The same for datagrams, such as a name service takes.
        abstract: Name of a server's abstract socket.
        shared: Id of a segment of shared memory.
    """

    folder: Path
    tcp: int
    udp: int
    abstract: str
    shared: int

    @property
    def known(self) -> dict[str, str]:
        """The variables of every script."""
        return {
            "HOST_FOLDER": str(self.folder),
            "HOST_TCP": str(self.tcp),
            "HOST_UDP": str(self.udp),
            "HOST_ABSTRACT": self.abstract,
            "HOST_SHARED": str(self.shared),
        }


@asynccontextmanager
async def bystanders(folder: Path, kept: Secrets) -> AsyncIterator[Bystanders]:
    """Set everything up below `folder`, and take it down.

    Raises:
        OSError: The host refuses a server or a file.
        SandboxError: It refuses shared memory.
    """
    await in_thread(partial(_write_files, folder, kept.file))
    abstract = f"lego-rl-selfcheck-{secrets.token_hex(8)}"

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{kept.network}\n".encode())
        writer.close()

    async with AsyncExitStack() as stack:
        tcp = await asyncio.start_server(answer, "127.0.0.1", 0)
        stack.push_async_callback(_close, tcp)
        stack.push_async_callback(_close, await asyncio.start_unix_server(answer, f"\0{abstract}"))
        stack.push_async_callback(_close, await asyncio.start_unix_server(answer, sock=_bound(folder, DOCKER_SOCKET)))
        udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Datagrams(kept.network.encode()), ("127.0.0.1", 0)
        )
        stack.callback(udp.close)
        shared = stack.enter_context(_shared_memory(kept.memory.encode()))
        stack.enter_context(_variable(VARIABLE, kept.environment))
        stack.enter_context(_bystander(kept.process))
        yield Bystanders(
            folder, _port(tcp.sockets[0].getsockname()), _port(udp.get_extra_info("sockname")), abstract, shared
        )


def _write_files(folder: Path, secret: str) -> None:
    folder.chmod(0o755)
    (folder / SECRET_FILE).write_text(secret)
    (folder / SECRET_FILE).chmod(0o644)
    (folder / WRITABLE).mkdir()
    (folder / WRITABLE).chmod(0o777)


def _bound(folder: Path, name: str) -> socket.socket:
    """A socket in a folder, whose path may be longer than an address can be."""
    made = socket.socket(socket.AF_UNIX)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        made.bind(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
    (folder / name).chmod(0o777)
    return made


def _port(address: tuple[str, int]) -> int:
    return address[1]


async def _close(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


class _Datagrams(asyncio.DatagramProtocol):
    """Answers whatever comes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport

    @override
    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(self._answer, addr)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _bystander(secret: str) -> Iterator[None]:
    """A process of the host with a secret in its command line, which ends when its standard input does."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()", BYSTANDER, secret], stdin=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        yield
        process.kill()


@contextmanager
def _shared_memory(content: bytes) -> Iterator[int]:
    """A System V segment that everybody may attach."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]
    segment = libc.shmget(IPC_PRIVATE, SHARED_BYTES, IPC_CREAT | 0o666)
    if segment < 0:
        raise SandboxError(f"no shared memory: {os.strerror(ctypes.get_errno())}", "free some: ipcs -m")
    try:
        address = libc.shmat(segment, None, 0)
        ctypes.memmove(address, content, len(content))
        libc.shmdt(address)
        yield segment
    finally:
        libc.shmctl(segment, IPC_RMID, None)
