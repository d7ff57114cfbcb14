"""Start a container and take its first process's call.

Invariant: when `launch` returns, the first process has answered from inside, the kernel says that it is the container's
and that the limits are in force, and nobody else can call any more; when it fails, the container is for the caller to
remove. The host listens on a socket in a folder that only this container is shown.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from lego_rl.errors import SandboxError
from lego_rl.sandbox import seccomp
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.docker.config import FILTER, SOCKET
from lego_rl.sandbox.docker.engine import Engine, Json, in_thread
from lego_rl.sandbox.docker.labels import Mark
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.readable import first_readable
from lego_rl.sandbox.state import RunFolder

START_SECONDS = 30.0
"""How long a started container may take until its first process is ready."""
ELSEWHERE = 'use a daemon that runs on this machine, outside any container: eval "$(scripts/dockerd.sh start)"'


@dataclass(frozen=True)
class Running:
    """A container that answers.

    Attributes:
        channel: Requests to the first process.
        cgroups: What holds its limits.
        first: The first process, by its id on the host.
        pidfd: The same as a descriptor, which the owner closes.
    """

    channel: Channel
    cgroups: Cgroups
    first: int
    pidfd: int


async def launch(engine: Engine, mark: Mark, body: Json, limits: Limits, run: RunFolder) -> Running:
    """Create and start a sandbox's container, and wait until its first process is ready.

    Raises:
        SandboxError: Some part of the isolation could not be established.
    """
    name = mark.name()
    with _listening(run) as server, ExitStack() as undone:
        await in_thread(engine.create, name, body, mark.labels)
        await in_thread(engine.start, name)
        first = (await in_thread(engine.container, name)).state.pid
        pidfd = _opened(first)
        if pidfd is None:
            raise await _explain(engine, name)
        undone.callback(os.close, pidfd)
        try:
            async with asyncio.timeout(START_SECONDS):
                if await first_readable(server, pidfd) is not server:
                    raise await _explain(engine, name)
                channel = _accept(server, first)
                undone.callback(channel.close)
                if not await channel.ready():
                    raise await _explain(engine, name)
        except TimeoutError as error:
            raise SandboxError(f"a container was not ready after {START_SECONDS:.0f} s", ELSEWHERE) from error
        running = Running(channel, _limits_in_force(first, name, limits), first, pidfd)
        undone.pop_all()
        return running


def _opened(first: int) -> int | None:
    """A descriptor of a process, unless it has ended already: then Docker says 0 of it, or the kernel knows it not."""
    with suppress(ProcessLookupError):
        return os.pidfd_open(first) if first else None
    return None


@contextmanager
def _listening(run: RunFolder) -> Iterator[socket.socket]:
    """A socket in the run's control folder, and beside it the filter for system calls; afterwards both are gone."""
    called, rules = run.control / SOCKET, run.control / FILTER
    rules.write_bytes(seccomp.compiled())
    rules.chmod(0o644)
    folder = os.open(run.control, os.O_PATH | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.setblocking(False)
            server.bind(f"/proc/self/fd/{folder}/{SOCKET}")  # a socket's path is short, a state folder's may not be
            called.chmod(0o666)
            server.listen(1)
            yield server
    finally:
        os.close(folder)
        called.unlink(missing_ok=True)
        rules.unlink(missing_ok=True)


def _accept(server: socket.socket, first: int) -> Channel:
    """The one call that is taken.

    Raises:
        SandboxError: Another process than the container's first made it.
    """
    connection, _ = server.accept()
    caller, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if caller != first:
        connection.close()
        raise SandboxError(f"process {caller} called in place of the container's first, which is {first}", ELSEWHERE)
    return Channel(connection)


def _limits_in_force(first: int, name: str, limits: Limits) -> Cgroups:
    """The control groups of the first process, which hold exactly the limits that were asked for.

    Raises:
        SandboxError: They do not, or cannot be read here.
    """
    try:
        groups = Cgroups.of(first)
        held = groups.held()
    except OSError as error:
        raise SandboxError(f"the control groups of container {name} cannot be read: {error}", ELSEWHERE) from error
    if held != (limits.memory_mb << 20, limits.processes):
        raise SandboxError(
            f"container {name} is held to {held[0]} bytes and {held[1]} processes, which is not what was asked for",
            "use a daemon that limits memory and processes (docker info says so)",
        )
    return groups


async def _explain(engine: Engine, name: str) -> SandboxError:
    """The error for a first process that ended early: what it printed."""
    printed = "; ".join((await in_thread(engine.printed, name)).split("\n")).strip("; ")
    return SandboxError(
        f"a container's first process ended at once: {printed or 'it printed nothing'}",
        "the image must be able to run Lego-RL's Python: a glibc of this machine's or a newer one",
    )
