"""One running sandbox.

Invariant: isolation is complete before anything of the caller's runs in it, or `Sandbox.start` fails; and nothing in it
is alive after `kill` returned or after the process that owns it is gone, however that happened.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox import records
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.layout import FIRST_PROGRAM, Layout, plan
from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.output import BoundedOutput, OutputPipe, readable_copy
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.rootfs import HOME, SYSTEM_PATH, USER
from lego_rl.sandbox.seccomp import filter_descriptor
from lego_rl.sandbox.snapshot import Snapshot, measure
from lego_rl.sandbox.state import RunFolder, State, outside_uid
from lego_rl.sandbox.toolchain import Toolchain

LAUNCHER = Path(__file__).with_name("launcher.py")
START_SECONDS = 30.0
KILL_SECONDS = 10.0
TRANSFER_BYTES = 256 << 20
ERROR_BYTES = 4096
DISK_CHECK_SECONDS = 1.0
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
        died: The whole sandbox was killed, by the host or by its disk limit.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    died: bool = False


class TransferError(SandboxError):
    """A living sandbox refused a file transfer: what was asked for cannot be written or read in it."""


class Sandbox:
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self,
        image: Image,
        limits: Limits,
        run: RunFolder,
        toolchain: Toolchain,
        cgroups: Cgroups,
        process: asyncio.subprocess.Process,
        channel: Channel,
        first: int,
    ) -> None:
        self.image = image
        self.limits = limits
        self.run_folder = run
        self._toolchain = toolchain
        self._cgroups = cgroups
        self._process = process
        self._channel = channel
        self._first = first
        self._disk_full = False
        self._closed = False
        self._guard = asyncio.create_task(self._watch_disk())

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
        run = (state or State.default()).new_run()
        cgroups = Cgroups.create(f"lego-{run.path.name}", limits)
        run.cgroups.write_text("\n".join(map(str, cgroups.paths)))
        layout = plan(image, toolchain, mounts, limits, run, state or State.default())
        try:
            process, channel, first = await _launch(layout, toolchain, limits, cgroups)
        except BaseException:
            cgroups.remove()
            run.remove()
            raise
        return cls(image, limits, run, toolchain, cgroups, process, channel, first)

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
        return LimitHits(hits.memory, hits.processes, self._disk_full)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        timeout: float | None = None,
        sink: OutputSink | None = None,
    ) -> Completed:
        """Run a program and wait for it.

        When the time is up, or the caller is cancelled, every process in the sandbox but its first is killed.

        Args:
            argv: Program, looked up in the given ``PATH``, and arguments.
            env: Added to `environment`.
            cwd: Working directory; the work tree by default.
            stdin: Text for standard input, which then ends.
            timeout: Seconds.
            sink: Is given output as it comes.
        """
        variables = {**self.environment, **(env or {})}
        fields = ["exec", cwd or self.image.workdir, str(len(argv)), *argv, *(f"{k}={v}" for k, v in variables.items())]
        output = {name: BoundedOutput(self.limits.output_bytes) for name in ("stdout", "stderr")}
        pipes = [OutputPipe(_consumer(name, kept, sink)) for name, kept in output.items()]
        timed_out = died = False
        returncode = 137
        try:
            async with asyncio.timeout(timeout):
                returncode = await self._run(fields, stdin.encode(), pipes)
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
        await self._operate(["put", folder], records.encode(tree))

    async def get(self, path: str) -> list[Record]:
        """Read a file or folder as records; special files and what may not be read are left out.

        Raises:
            TransferError: There is no such path.
            SandboxError: It is larger than a transfer may be, or the sandbox died.
        """
        return list(records.decode(await self._operate(["get", path])))

    async def holes(self, forbidden: Iterable[str]) -> list[str]:
        """What is wrong with the seal, seen from inside; empty is right.

        Args:
            forbidden: Absolute paths that must not exist.
        """
        return (await self._operate(["seal", *forbidden])).decode(errors="replace").splitlines()

    async def listen(self, port: int) -> socket.socket:
        """A non-blocking socket that listens on ``127.0.0.1:port`` inside, for the host to serve.

        Raises:
            SandboxError: The port cannot be bound.
        """
        try:
            return await self._channel.listener(port)
        except SandboxDied as error:
            raise SandboxError("the sandbox died before it could listen") from error

    async def kill_processes(self) -> None:
        """Kill every process in the sandbox but its first, which stays to serve."""
        with suppress(SandboxDied):
            await self._channel.reply(await self._channel.send(["kill"], []))

    async def kill(self) -> None:
        """Kill everything in the sandbox; its files stay on the host. Calling it again does nothing.

        Raises:
            SandboxError: A process is still alive; the snapshot must not be trusted then.
        """
        self._guard.cancel()
        self._channel.close()
        self._kill_first()
        try:
            # bubblewrap ends when the first process has, and that ends when the kernel has killed the whole namespace.
            await asyncio.wait_for(self._process.wait(), KILL_SECONDS)
        except TimeoutError as error:
            raise SandboxError("a sandbox could not be killed", "look for processes stuck in the kernel") from error
        if not self._cgroups.is_empty():
            raise SandboxError("a killed sandbox still has processes in its control group")

    def snapshot(self) -> Snapshot:
        """The work tree as the killed sandbox left it.

        Raises:
            SandboxError: The sandbox is still alive.
        """
        if self._process.returncode is None:
            raise SandboxError("a snapshot of a running sandbox would not be one", "kill it first")
        return Snapshot(self.run_folder.upper)

    async def close(self) -> None:
        """Kill everything and remove what the sandbox wrote; a snapshot is gone with it."""
        if self._closed:
            return
        try:
            await self.kill()
        finally:
            self._closed = True
            os.close(self._first)
            self._cgroups.remove()
            self.run_folder.remove()

    async def _run(self, fields: list[str], stdin: bytes, pipes: Sequence[OutputPipe]) -> int:
        """Send a request with standard input and output pipes; the exit status of what it started."""
        source = readable_copy(stdin)
        try:
            answer = await self._channel.send(fields, [source, *(pipe.theirs for pipe in pipes)])
        finally:
            os.close(source)
            for pipe in pipes:
                pipe.handed_over()
        return await self._channel.status(answer)

    async def _operate(self, fields: list[str], content: bytes = b"") -> bytes:
        """Run one of the first process's own operations; what it wrote.

        Raises:
            TransferError: It failed.
            SandboxError: It wrote too much, or the sandbox died.
        """
        received, errors = bytearray(), BoundedOutput(ERROR_BYTES)

        async def keep(piece: bytes) -> None:
            if len(received) + len(piece) > TRANSFER_BYTES:
                raise SandboxError(f"a file transfer from the sandbox is larger than {TRANSFER_BYTES >> 20} MiB")
            received.extend(piece)

        pipes = [OutputPipe(keep), OutputPipe(errors.write)]
        try:
            status = await self._run(fields, content, pipes)
        except SandboxDied as error:
            raise SandboxError("the sandbox died during a file transfer") from error
        finally:
            for pipe in pipes:
                await pipe.drain(None)
        if status != 0:
            raise TransferError(f"{fields[0]} {fields[1]} failed in the sandbox: {errors.text().strip()}")
        return bytes(received)

    async def _watch_disk(self) -> None:
        limit = self.limits.disk_mb << 20
        while True:
            await asyncio.sleep(DISK_CHECK_SECONDS)
            for layer in (self.run_folder.upper, self.run_folder.root_upper):
                if await asyncio.to_thread(measure, layer, limit) > limit:
                    self._disk_full = True
                    self._kill_first()
                    return

    def _kill_first(self) -> None:
        """Kill the first process: the kernel then kills all others in the sandbox."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)


def _consumer(name: str, kept: BoundedOutput, sink: OutputSink | None) -> Callable[[bytes], Awaitable[None]]:
    if sink is None:
        return kept.write

    async def consume(piece: bytes) -> None:
        await kept.write(piece)
        await sink(piece, name)

    return consume


async def _launch(
    layout: Layout, toolchain: Toolchain, limits: Limits, cgroups: Cgroups
) -> tuple[asyncio.subprocess.Process, Channel, int]:
    """Run the launcher and wait until the sandbox's first process is ready.

    Returns:
        bubblewrap's process, the channel, and a pid descriptor of the first process.
    """
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    info_read, info_write = os.pipe2(os.O_CLOEXEC)
    rules = filter_descriptor()
    errors = os.memfd_create("errors", os.MFD_CLOEXEC)
    bounds = _resource_limits(limits, cgroups)
    argv = [
        *layout.arguments, "--seccomp", str(rules), "--info-fd", str(info_write), "--",
        toolchain.interpreter, "-I", "-S", FIRST_PROGRAM, str(theirs.fileno()), *map(str, bounds),
    ]  # fmt: skip
    request = readable_copy(json.dumps({
        "uid": outside_uid(),
        "cgroups": [str(path) for path in cgroups.paths],
        "binds": [{"source": str(source), "name": name} for source, name in layout.binds.items()],
        "overlays": layout.overlays,
        "argv": argv,
    }).encode())  # fmt: skip
    channel = Channel(mine)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", str(LAUNCHER), str(request),
                pass_fds=[theirs.fileno(), info_write, rules, request],
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
            for descriptor in (info_write, rules, request):
                os.close(descriptor)
        async with asyncio.timeout(START_SECONDS):
            ready = await channel.ready()
        if not ready:
            await process.wait()
            raise SandboxError(f"a sandbox could not be built: {_read_back(errors)}", "run: lego-rl doctor")
        first = os.pidfd_open(int(json.loads(os.read(info_read, 4096))["child-pid"]))
    except BaseException:
        channel.close()
        raise
    finally:
        os.close(info_read)
        os.close(errors)
    return process, channel, first


def _resource_limits(limits: Limits, cgroups: Cgroups) -> tuple[int, int, int]:
    """Processes, bytes of data, bytes of a file: what `inside.py` sets; 0 where a control group does it better."""
    file_bytes = limits.disk_mb << 20
    return (0, 0, file_bytes) if cgroups.groups else (limits.processes, limits.memory_mb << 20, file_bytes)


def _read_back(descriptor: int) -> str:
    return os.pread(descriptor, ERROR_BYTES, 0).decode(errors="replace").strip().replace("\n", "; ")
