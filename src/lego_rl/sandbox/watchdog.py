"""Limits that the kernel does not hold for us: all that a sandbox writes on the disk, memory without a control group.

Invariant: a sandbox past such a limit is killed within about a second, and why is known on the host. A sandbox that
cannot be watched any more is killed as well, and so is one that has more to look at than a look may take. Nothing
delays a look: neither what another sandbox makes slow, such as the removal of its files, nor another look at this one,
for each has a thread of its own.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lego_rl.sandbox.disk import free_bytes
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.overlay import measure
from lego_rl.sandbox.pace import Pace, TooMuchError
from lego_rl.sandbox.processes import descendants, exceeds, hides
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.unlinked import unlinked_size

INTERVAL_SECONDS = 1.0
LOOK_SECONDS = 30.0
"""How long a look may take with all that it waits for; of processor time it has far less (`Pace`)."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one sandbox until it is cancelled.

    Args:
        run: Whose folders are measured.
        limits: What is allowed.
        first: Host pid of the sandbox's first process.
        pidfd: The same process as a descriptor.
        watches_memory: No control group limits the memory, so the processes' sizes are added up.

    Attributes:
        disk_full: The sandbox was killed for the size of what it wrote.
        memory_full: It was killed for its memory.
        failed: It was killed because one of the two could not be measured.
    """

    def __init__(self, run: RunFolder, limits: Limits, first: int, pidfd: int, *, watches_memory: bool) -> None:
        self.disk_full = False
        self.memory_full = False
        self.failed = False
        self._layers = run.written
        self._disk = limits.disk_mb << 20
        self._memory_kib = limits.memory_mb << 10
        self._first = first
        self._pidfd = pidfd
        self._unlinked = 0
        self._hidden = False
        self._place = run.path
        self._free = free_bytes(run.path)
        looks = [self._look_at_layers, self._look_at_unlinked, *([self._look_at_memory] if watches_memory else [])]
        self._tasks = [asyncio.create_task(self._watch(look)) for look in looks]

    @property
    def has_killed(self) -> bool:
        """Whether it has killed the sandbox."""
        return self.disk_full or self.memory_full or self.failed

    def cancel(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()

    async def _watch(self, look: Callable[[], None]) -> None:
        thread = ThreadPoolExecutor(1, "watchdog")
        try:
            while not self.has_killed:
                await asyncio.sleep(INTERVAL_SECONDS)
                async with asyncio.timeout(LOOK_SECONDS):
                    await asyncio.get_running_loop().run_in_executor(thread, look)
        except Exception:  # noqa: BLE001  # Whatever it is, nothing holds the limits from here on: it is kept, and kills.
            self.failed = True
            _log.exception("a sandbox is killed because its limits cannot be measured")
        finally:
            thread.shutdown(wait=False)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _look_at_layers(self) -> None:
        pace = Pace()
        named = self._named(pace)
        if named <= self._disk < named + self._unlinked:
            self._look_at_unlinked()  # Some of it may have been given a name since, and would count twice.
            named = self._named(pace)
        if named + self._unlinked > self._disk:
            self.disk_full = True

    def _named(self, pace: Pace) -> int:
        return sum(measure(layer, self._disk, pace) for layer in self._layers)

    def _look_at_unlinked(self) -> None:
        family, free = descendants(self._first), free_bytes(self._place)
        self._free = max(self._free, free)
        self._unlinked = unlinked_size(family, Pace())
        if self._unlinked > self._disk:
            self.disk_full = True
        # Every process hides for the moment between its fork and its program; nobody knows when the host looks.
        hid, self._hidden = self._hidden, hides(family)
        if hid and self._hidden and self._free - free > self._disk:
            raise TooMuchError("the disk fills, and a process does not show which files it holds")

    def _look_at_memory(self) -> None:
        if exceeds(self._first, self._memory_kib, Pace()):
            self.memory_full = True
