"""One running sandbox.

Invariant: isolation is complete before anything of the caller's runs in it, or `Sandbox.start` fails; and nothing in it
is alive after `kill` returned or after the process that owns it is gone, however that happened.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lego_rl.errors import SandboxError
from lego_rl.sandbox import records
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.channel import SandboxDied
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.launch import Running, launch
from lego_rl.sandbox.layout import plan
from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.output import BoundedOutput, OutputPipe
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.rootfs import HOME, SYSTEM_PATH, USER
from lego_rl.sandbox.snapshot import Snapshot
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.toolchain import Toolchain
from lego_rl.sandbox.transfer import operate
from lego_rl.sandbox.watchdog import Watchdog

KILL_SECONDS = 10.0
STUCK = "look for processes stuck in the kernel (state D in ps)"
ANSWER_SECONDS = 10.0
"""How long the first process may take to kill the others."""
DRAIN_SECONDS = 0.25
"""How long output is still read after a command has ended: a process that it left behind may hold the pipe open."""

type OutputSink = Callable[[bytes, str], Awaitable[None]]
"""Is given each piece of output and the stream's name, ``stdout`` or ``stderr``."""


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    Attributes:
        returncode: Exit status, 128 + n for signal n; 137 where the sandbox was killed or the time was up.
        stdout: Bounded output.
        stderr: Bounded output.
        timed_out: The time was up, and every process of the sandbox but its first was killed.
        died: The whole sandbox was killed, by the host or by a measured limit.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    died: bool = False


class Sandbox:
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self,
        image: Image,
        limits: Limits,
        run: RunFolder,
        toolchain: Toolchain,
        cgroups: Cgroups,
        running: Running,
    ) -> None:
        self.image = image
        self.limits = limits
        self.run_folder = run
        self._toolchain = toolchain
        self._cgroups = cgroups
        self._process = running.process
        self._channel = running.channel
        self._pidfd = running.pidfd
        self._closed = False
        self._watchdog = Watchdog(run, limits, running.first, running.pidfd, watches_memory=not cgroups.groups)

    @classmethod
    async def start(
        cls,
        image: Image,
        toolchain: Toolchain,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits | None = None,
        state: State | None = None,
    ) -> "Sandbox":
        """Build a sandbox from `image`.

        The calling thread must outlive the sandbox (the kernel ties a child's life to the thread that started it).

        Raises:
            SandboxError: Some part of the isolation could not be established.
        """
        limits = limits or Limits()
        state = state or State.default()
        run = state.new_run()
        cgroups = Cgroups()
        try:
            layout = plan(image, toolchain, mounts, limits, run, state)
            cgroups = Cgroups.create(run.cgroup_name, limits)
            run.cgroups.write_text("\n".join(map(str, cgroups.paths)))
            running = await launch(layout, toolchain, limits, cgroups)
        except BaseException:
            await asyncio.to_thread(_discard, run, cgroups)
            raise
        return cls(image, limits, run, toolchain, cgroups, running)

    @property
    def environment(self) -> dict[str, str]:
        """What every command is given unless it says otherwise."""
        return {
            "PATH": f"{self._toolchain.path}:{SYSTEM_PATH}",
            "HOME": HOME,
            "USER": USER,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **self.image.env,
        }

    @property
    def limit_report(self) -> LimitReport:
        """What enforces the limits."""
        return self._cgroups.report()

    def limit_hits(self) -> LimitHits:
        """Which of its own limits the sandbox ran into, by the host's evidence."""
        hits = self._cgroups.hits()
        memory = max(hits.memory, int(self._watchdog.memory_full))
        return LimitHits(memory, hits.processes, self._watchdog.disk_full, self._watchdog.failed)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        sink: OutputSink | None = None,
    ) -> Completed:
        """Run a program and wait for it.

        When the time is up, or the caller is cancelled, every process in the sandbox but its first is killed.

        Args:
            argv: Program, looked up in the given ``PATH``, and arguments.
            env: Added to `environment`.
            cwd: Working directory; the work tree by default.
            stdin: Text for standard input, which then ends.
            timeout_sec: Seconds.
            sink: Is given output as it comes.
        """
        variables = {**self.environment, **(env or {})}
        fields = ["exec", cwd or self.image.workdir, str(len(argv)), *argv, *(f"{k}={v}" for k, v in variables.items())]
        output = {name: BoundedOutput(self.limits.output_bytes) for name in ("stdout", "stderr")}
        pipes = [OutputPipe(_consumer(name, kept, sink)) for name, kept in output.items()]
        timed_out = died = False
        returncode = 137
        try:
            async with asyncio.timeout(timeout_sec):
                returncode = await self._channel.run(fields, stdin.encode(), pipes)
        except TimeoutError:
            timed_out = True
            await self.kill_processes()
        except asyncio.CancelledError:
            await self.kill_processes()
            raise
        except SandboxDied:
            died = True
        finally:
            for pipe in pipes:
                await pipe.drain(DRAIN_SECONDS)
        return Completed(returncode, output["stdout"].text(), output["stderr"].text(), timed_out, died)

    async def put(self, folder: str, tree: Iterable[Record]) -> None:
        """Write records below `folder`; links below it are replaced, never followed.

        Raises:
            TransferError: Something could not be written.
            SandboxError: The sandbox died.
        """
        await operate(self._channel, ["put", folder], await asyncio.to_thread(records.encode, tree))

    async def get(self, path: str) -> list[Record]:
        """Read a file or folder as records; special files and what may not be read are left out.

        Raises:
            TransferError: There is no such path.
            SandboxError: It is larger than a transfer may be, or the sandbox died.
        """
        stream = await operate(self._channel, ["get", path])
        return await asyncio.to_thread(lambda: list(records.decode(stream)))

    async def holes(self, forbidden: Iterable[str]) -> list[str]:
        """What is wrong with the seal, seen from inside; empty is right.

        Args:
            forbidden: Absolute paths that must not exist.
        """
        return (await operate(self._channel, ["seal", *forbidden])).decode(errors="replace").splitlines()

    async def listen(self, port: int) -> socket.socket:
        """A non-blocking socket that listens on ``127.0.0.1:port`` inside, for the host to serve.

        Raises:
            SandboxError: The port cannot be bound.
        """
        try:
            return await self._channel.listener(port)
        except SandboxDied as error:
            raise SandboxError(
                "the sandbox died before it could listen", "look for what kills processes on this machine"
            ) from error

    async def kill_processes(self) -> None:
        """Kill every process in the sandbox but its first, which stays to serve; one that does not answer goes too."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                with suppress(SandboxDied):
                    await self._channel.reply(await self._channel.send(["kill"], []))
        except TimeoutError:
            self._kill_first()

    async def kill(self) -> None:
        """Kill everything in the sandbox; its files stay on the host. Calling it again, or when closed, does nothing.

        Raises:
            SandboxError: A process is still alive; the snapshot must not be trusted then.
        """
        if self._closed:
            return
        self._watchdog.cancel()
        self._channel.close()
        self._kill_first()
        try:
            # bubblewrap ends when the first process has, and that ends when the kernel has killed the whole namespace.
            await asyncio.wait_for(self._process.wait(), KILL_SECONDS)
        except TimeoutError as error:
            raise SandboxError("a sandbox could not be killed", STUCK) from error
        if not self._cgroups.is_empty():
            raise SandboxError("a killed sandbox still has processes in its control group", STUCK)

    def snapshot(self) -> Snapshot:
        """The work tree as the killed sandbox left it.

        Raises:
            SandboxError: The sandbox is still alive.
        """
        if self._process.returncode is None:
            raise SandboxError("a snapshot of a running sandbox would not be one", "kill it first")
        return Snapshot(self.run_folder.upper)

    async def close(self) -> None:
        """Kill everything and remove what the sandbox wrote; a snapshot is gone with it.

        Raises:
            SandboxError: A process is still alive. What merely cannot be removed is logged and left.
        """
        if self._closed:
            return
        try:
            await self.kill()
        finally:
            self._closed = True
            os.close(self._pidfd)
            # A sandbox may leave very many files; whoever shares the event loop must not wait for them.
            await asyncio.to_thread(self.run_folder.remove)

    def _kill_first(self) -> None:
        """Kill the first process: the kernel then kills all others in the sandbox."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def _discard(run: RunFolder, cgroups: Cgroups) -> None:
    """Remove what a sandbox that never came to be has left; the folder may not know the groups yet."""
    with suppress(OSError):  # The folder tries again, and logs.
        cgroups.remove()
    run.remove()


def _consumer(name: str, kept: BoundedOutput, sink: OutputSink | None) -> Callable[[bytes], Awaitable[None]]:
    if sink is None:
        return kept.write

    async def consume(piece: bytes) -> None:
        await kept.write(piece)
        await sink(piece, name)

    return consume
