"""A sandbox on this machine: its first process is one of the host's, and its work tree an overlay on the host.

Invariant: nothing in it is alive after `kill` returned or after the process that owns it is gone, and that it is dead
is the kernel's word. What it wrote is read on the host, after that, from the overlay's upper layer.
"""

import asyncio
import logging
import os
import signal
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, override

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.controlled import ControlledSandbox
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.loss import Loss
from lego_rl.sandbox.outside_kill import oom_kills
from lego_rl.sandbox.report import REPORT_NAME, read_report
from lego_rl.sandbox.sandbox import Tree
from lego_rl.sandbox.seal_request import Surroundings
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.watchdog import Watchdog

KILL_SECONDS = 10.0
REMOVE_SECONDS = 60.0
"""How long a trial waits until what its sandbox wrote is gone; it may be very many files, and goes on being removed."""
REMOVERS = ThreadPoolExecutor(2, "remove")
"""Threads that remove files: however many a sandbox left, nothing else waits for a free thread."""
STUCK = "look for processes stuck in the kernel (state D in ps)"

_log = logging.getLogger(__name__)


class Started(Protocol):
    """A sandbox whose first process answers."""

    @property
    def channel(self) -> Channel:
        """Requests to the first process."""
        ...

    @property
    def first(self) -> int:
        """The first process, by its id on the host."""
        ...

    @property
    def pidfd(self) -> int:
        """The same as a descriptor, which the sandbox closes."""
        ...


class LocalSandbox(ControlledSandbox):
    """What sandboxes of this machine have in common.

    Args:
        image: What it started from.
        limits: Its limits.
        surroundings: What the check of the seal takes as given.
        run: What it writes on the host.
        started: Its first process.
        watches_memory: No control group holds its memory.
    """

    def __init__(
        self, image: Tree, limits: Limits, surroundings: Surroundings, run: RunFolder, started: Started, *,
        watches_memory: bool,
    ) -> None:  # fmt: skip
        super().__init__(image, limits, started.channel, surroundings)
        self.run_folder = run
        self._pidfd = started.pidfd
        self._oom_kills = oom_kills()
        self._watchdog = Watchdog(run, limits, started.first, started.pidfd, watches_memory=watches_memory)

    @abstractmethod
    async def _ended(self) -> None:
        """Wait until the first process has ended, and with it every other."""

    @abstractmethod
    async def _remove(self) -> None:
        """Remove what the sandbox wrote, and what else the machine has of it."""

    @abstractmethod
    async def _taken_by(self) -> Loss | None:
        """See `_loss`, of a sandbox that has ended and that nothing here has killed."""

    @override
    def _kill_first(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    @override
    async def _die(self) -> None:
        self._watchdog.cancel()
        self._channel.close()
        self._kill_first()
        try:
            # The first process of a pid namespace has ended only when every other process in it has.
            await asyncio.wait_for(self._ended(), KILL_SECONDS)
        except TimeoutError as error:
            raise SandboxError("a sandbox could not be killed", STUCK) from error

    @override
    async def _discard(self) -> None:
        os.close(self._pidfd)
        await self._remove()

    @override
    async def _loss(self) -> Loss | None:
        if self._watchdog.has_killed:
            return None
        try:
            await asyncio.wait_for(self._ended(), KILL_SECONDS)
        except TimeoutError:
            return None
        return await self._taken_by()

    async def snapshot(self) -> OverlaySnapshot:
        """See `Sandbox.snapshot`."""
        self._check_dead()
        return OverlaySnapshot(self.run_folder.upper, self._tree.history.git_dirs_below(self._tree.workdir))

    async def report(self, name: str = REPORT_NAME) -> bytes:
        """See `Sandbox.report`."""
        self._check_dead()
        return await asyncio.to_thread(read_report, self.run_folder.report / name)


async def remove_in_time(run: RunFolder) -> None:
    """Remove a sandbox's folder, or leave it to its thread after a while; a process that ends leaves the rest."""
    removal = asyncio.get_running_loop().run_in_executor(REMOVERS, run.remove)
    done, _ = await asyncio.wait({removal}, timeout=REMOVE_SECONDS)
    if done:
        removal.result()
    else:
        _log.warning("the sandbox folder %s holds so much that it is still being removed", run.path)
