"""What a sandbox is, whatever isolates it.

Invariant: isolation is complete before anything of the caller's runs in a sandbox, or its start fails; nothing in it is
alive after `Sandbox.kill` returned; and what the agent left is read without executing any of it. There is no weaker
mode, so callers never ask which environment they are in.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.hole import Hole
from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits
from lego_rl.sandbox.loss import Loss
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.report import REPORT_NAME
from lego_rl.sandbox.seal_request import SealRequest, Surroundings
from lego_rl.sandbox.verdict import Patch

LOOPBACK = "127.0.0.1"

type OutputSink = Callable[[bytes, str], Awaitable[None]]
"""Is given each piece of output and the stream's name, ``stdout`` or ``stderr``."""


class Phase(StrEnum):
    """What a sandbox is for."""

    AGENT = "agent"
    """An agent works in it: sealed."""
    GRADING = "grading"
    """A change is graded in it: what the task declares for its tests is there."""


@dataclass(frozen=True)
class Completed:
    """How a command ended.

    Attributes:
        returncode: Exit status, 128 + n for signal n; 137 where the sandbox was killed or the time was up.
        stdout: Bounded output.
        stderr: Bounded output.
        timed_out: The time was up, and every process of the sandbox but its first was killed.
        died: The sandbox ended before the command did: killed by the host, by a measured limit or by somebody outside,
            or its first process ended, which what runs inside may bring about.
        loss: Who took the sandbox away, where it died and the host can tell that it was nobody inside.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    died: bool = False
    loss: Loss | None = None


class Snapshot(Protocol):
    """The work tree as a killed sandbox left it."""

    def diff(self, pristine: Path) -> Patch:
        """What it changed of the pristine tree, on the host; it may take a while, and belongs off the event loop."""
        ...


class Tree(Protocol):
    """What a sandbox started from."""

    @property
    def pristine(self) -> Path:
        """The work tree before anyone touched it, on the host, without git metadata."""
        ...

    @property
    def workdir(self) -> str:
        """Where the work tree is inside."""
        ...

    @property
    def history(self) -> HistorySeal:
        """What of git an agent phase has."""
        ...


class Sandbox(Protocol):
    """One running sandbox."""

    @property
    def image(self) -> Tree:
        """What it started from."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """What every command is given unless it says otherwise."""
        ...

    @property
    def surroundings(self) -> Surroundings:
        """What the check of the seal takes as given here, whatever the task."""
        ...

    @property
    def limits(self) -> Limits:
        """Its limits."""
        ...

    @property
    def limit_report(self) -> LimitReport:
        """What enforces the limits."""
        ...

    def limit_hits(self) -> LimitHits:
        """Which of its own limits the sandbox ran into, by the host's evidence."""
        ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        grace_sec: float = 0.0,
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
            grace_sec: Between the request to end (SIGTERM), when the time is up, and the kill; no request by default.
            sink: Is given output as it comes.
        """
        ...

    async def run_last(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_sec: float | None = None,
        grace_sec: float = 0.0,
    ) -> Completed:
        """Run a program as `exec` does, and kill everything else in the sandbox the moment it ends.

        When this returns, nothing of the sandbox's can write any more but its first process.
        """
        ...

    async def put(self, folder: str, tree: Iterable[Record]) -> None:
        """Write records below `folder`; links below it are replaced, never followed.

        Raises:
            TransferError: Something could not be written.
            SandboxLostError: The sandbox died, and the host can tell that it was nobody inside.
            SandboxError: The sandbox died.
        """
        ...

    async def get(self, path: str) -> list[Record]:
        """Read a file or folder as records; special files and what may not be read are left out.

        Raises:
            TransferError: There is no such path.
            SandboxError: It is larger than a transfer may be, or the sandbox died.
        """
        ...

    async def logs(self, folder: str) -> list[Record]:
        """Read a folder of logs as `get` does, but of each file the end, and of all only a few MiB.

        Raises:
            TransferError: There is no such folder.
            SandboxLostError: The sandbox died, and the host can tell that it was nobody inside.
            SandboxError: The sandbox died.
        """
        ...

    async def holes(self, wanted: SealRequest) -> list[Hole]:
        """What is wrong with the seal, seen from inside; empty is right.

        Args:
            wanted: What the sandbox may have of git, and what it must not have at all.

        Raises:
            SandboxError: The sandbox could not be asked.
        """
        ...

    async def listen(self, port: int, address: str = LOOPBACK) -> socket.socket:
        """A non-blocking socket that listens on the sandbox's own loopback, for the host to serve.

        Args:
            port: TCP port.
            address: One of 127.0.0.0/8.

        Raises:
            SandboxError: The port cannot be bound.
        """
        ...

    async def kill_processes(self) -> None:
        """Kill every process in the sandbox but its first, which stays to serve; one that does not answer goes too."""
        ...

    async def kill(self) -> None:
        """Kill everything in the sandbox; its files stay. Calling it again, or when closed, does nothing.

        Raises:
            SandboxLostError: It was taken away, and the host can tell that it was nobody inside.
            SandboxError: A process is still alive; the snapshot must not be trusted then.
        """
        ...

    async def snapshot(self) -> Snapshot:
        """The work tree as the killed sandbox left it; it is gone with the sandbox.

        Raises:
            SandboxLostError: They were taken away, and the host can tell that it was nobody inside.
            SandboxError: The sandbox is still alive, or its files cannot be had.
        """
        ...

    async def report(self, name: str = REPORT_NAME) -> bytes:
        """A file that a test command left in the killed sandbox's report folder, or nothing where there is none.

        Args:
            name: Of the file.

        Raises:
            SandboxLostError: They were taken away, and the host can tell that it was nobody inside.
            SandboxError: The sandbox is still alive, or its files cannot be had.
        """
        ...

    async def close(self) -> None:
        """Kill everything and remove what the sandbox wrote; of one that was taken away there is nothing to kill.

        Raises:
            SandboxError: A process may still be alive. What merely cannot be removed is logged and left.
        """
        ...
