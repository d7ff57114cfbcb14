"""One running bubblewrap sandbox.

Invariant: isolation is complete before anything of the caller's runs in it, or `BubblewrapSandbox.start` fails; and
nothing in it is alive after `kill` returned or after the process that owns it is gone, however that happened.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import override

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.launch import Running, launch
from lego_rl.sandbox.bubblewrap.layout import plan
from lego_rl.sandbox.cgroups import Cgroups, Hierarchies
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import LimitHits, LimitReport, Limits
from lego_rl.sandbox.loss import Loss
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_kill import increase, oom_kills, outside_kill
from lego_rl.sandbox.report import REPORT_NAME, read_report
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import Surroundings
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.toolchain import Toolchain
from lego_rl.sandbox.user import HOME, SYSTEM_PATH, USER
from lego_rl.sandbox.watchdog import Watchdog
from lego_rl.tasks.network import NO_NETWORK, NamedHosts, Network

KILL_SECONDS = 10.0
LOW_PORTS = Path(__file__).with_name("low_ports.py")
REMOVE_SECONDS = 60.0
"""How long a trial waits until what its sandbox wrote is gone; it may be very many files, and goes on being removed."""
REMOVERS = ThreadPoolExecutor(2, "remove")
"""Threads that remove files: however many a sandbox left, nothing else waits for a free thread."""
STUCK = "look for processes stuck in the kernel (state D in ps)"

_log = logging.getLogger(__name__)


class BubblewrapSandbox(ControlledSandbox):
    """A started sandbox; made by `start`, ended by `close`."""

    def __init__(
        self,
        image: Image,
        limits: Limits,
        run: RunFolder,
        toolchain: Toolchain,
        cgroups: Cgroups,
        running: Running,
        surroundings: Surroundings,
    ) -> None:
        super().__init__(image, limits, running.channel)
        self.image = image
        self._surroundings = surroundings
        self.run_folder = run
        self._toolchain = toolchain
        self._cgroups = cgroups
        self._process = running.process
        self._pidfd = running.pidfd
        self._closed = False
        self._killed = False
        self._oom_kills = oom_kills()
        self._watchdog = Watchdog(run, limits, running.first, running.pidfd, watches_memory=not cgroups.groups)

    @classmethod
    async def start(
        cls,
        image: Image,
        toolchain: Toolchain,
        phase: Phase = Phase.AGENT,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits | None = None,
        state: State | None = None,
        network: Network = NO_NETWORK,
        services: Mapping[str, str] | None = None,
    ) -> "BubblewrapSandbox":
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
            layout = plan(image, toolchain, phase, mounts, limits, run, state, network)
            hierarchies = Hierarchies.of_this_process()
            # Before the first is made: whoever is killed in between leaves a list for the next one.
            run.cgroups.write_text("\n".join(map(str, hierarchies.candidates(run.cgroup_name))))
            cgroups = Cgroups.create(run.cgroup_name, limits, hierarchies)
            running = await launch(layout, toolchain, limits, cgroups)
        except BaseException:
            await asyncio.to_thread(_discard, cgroups)
            await _in_time(run)
            raise
        box = cls(image, limits, run, toolchain, cgroups, running, layout.surroundings)
        if isinstance(network, NamedHosts):
            try:
                await _allow_low_ports(running.first)
            except BaseException:
                await box.close()
                raise
        await box.relay(network, services or {})
        return box

    @property
    @override
    def surroundings(self) -> Surroundings:
        """See `ControlledSandbox`."""
        return self._surroundings

    @property
    @override
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

    async def kill(self) -> None:
        """Kill everything in the sandbox; its files stay on the host. Calling it again, or when closed, does nothing.

        Raises:
            SandboxError: A process is still alive; the snapshot must not be trusted then.
        """
        if self._closed:
            return
        await self._hang_up()
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

    async def snapshot(self) -> OverlaySnapshot:
        """See `Sandbox.snapshot`."""
        self._check_killed()
        return OverlaySnapshot(self.run_folder.upper)

    async def report(self, name: str = REPORT_NAME) -> bytes:
        """See `Sandbox.report`."""
        self._check_killed()
        return await asyncio.to_thread(read_report, self.run_folder.report / name)

    def _check_killed(self) -> None:
        if self._process.returncode is None:
            raise SandboxError("what a running sandbox has written may still change", "kill it first")

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
            await _in_time(self.run_folder)

    @override
    async def _loss(self) -> Loss | None:
        if self._killed or self._watchdog.has_killed:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), KILL_SECONDS)
        counted = self._cgroups.hits().memory if self._cgroups.groups else increase(self._oom_kills, oom_kills())
        return outside_kill(self._process.returncode) if counted == 0 else None

    @override
    def _kill_first(self) -> None:
        """Kill the first process: the kernel then kills all others in the sandbox."""
        self._killed = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


async def _allow_low_ports(first: int) -> None:
    """Let the sandbox's processes bind ports below 1024, as the services have that its tests call.

    Raises:
        SandboxError: The kernel does not allow it.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(LOW_PORTS), str(first),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    if process.returncode != 0:
        raise SandboxError(
            f"the ports of named hosts cannot be bound in a sandbox: {errors.decode(errors='replace').strip()}",
            "use a kernel that lets the owner of a user namespace enter it",
        )


def _discard(cgroups: Cgroups) -> None:
    """Remove the groups of a sandbox that never came to be; its folder may not know them yet."""
    with suppress(OSError):  # The folder tries again, and logs.
        cgroups.remove()


async def _in_time(run: RunFolder) -> None:
    """Remove a sandbox's folder, or leave it to its thread after a while; a process that ends leaves the rest."""
    removal = asyncio.get_running_loop().run_in_executor(REMOVERS, run.remove)
    done, _ = await asyncio.wait({removal}, timeout=REMOVE_SECONDS)
    if done:
        removal.result()
    else:
        _log.warning("the sandbox folder %s holds so much that it is still being removed", run.path)
