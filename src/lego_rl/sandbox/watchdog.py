"""Limits that the kernel does not hold for us: the size of an overlay's upper layer, memory without a control group.

Invariant: a sandbox past such a limit is killed within about a second, and why is known on the host. A sandbox that
cannot be watched any more is killed as well. Nothing that another sandbox makes slow, such as the removal of its files,
delays the look at this one: each watchdog has a thread of its own.
"""

import asyncio
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.overlay import measure
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.unlinked import unlinked_size

INTERVAL_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one sandbox until it is cancelled.

    Args:
        run: Whose layers are measured.
        limits: What is allowed.
        first: Host pid of the sandbox's first process.
        pidfd: The same process as a descriptor.
        watches_memory: No control group limits the memory, so the processes' sizes are added up.

    Attributes:
        disk_full: The sandbox was killed for the size of a layer.
        memory_full: It was killed for its memory.
        failed: It was killed because one of the two could not be measured.
    """

    def __init__(self, run: RunFolder, limits: Limits, first: int, pidfd: int, *, watches_memory: bool) -> None:
        self.disk_full = False
        self.memory_full = False
        self.failed = False
        self._layers = (run.upper, run.root_upper, run.report)
        self._limits = limits
        self._first = first
        self._pidfd = pidfd
        self._watches_memory = watches_memory
        self._thread = ThreadPoolExecutor(1, "watchdog")
        self._task = asyncio.create_task(self._watch())
        self._task.add_done_callback(lambda _: self._thread.shutdown(wait=False))

    @property
    def has_killed(self) -> bool:
        """Whether it has killed the sandbox."""
        return self.disk_full or self.memory_full or self.failed

    def cancel(self) -> None:
        """Stop watching."""
        self._task.cancel()

    async def _watch(self) -> None:
        try:
            while not (self.disk_full or self.memory_full):
                await asyncio.sleep(INTERVAL_SECONDS)
                await asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        except Exception:  # noqa: BLE001  # Whatever it is, nothing holds the limits from here on: it is kept, and kills.
            self.failed = True
            _log.exception("a sandbox is killed because its limits cannot be measured")
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _look(self) -> None:
        disk = self._limits.disk_mb << 20
        unlinked = unlinked_size(descendants(self._first))
        self.disk_full = any(unlinked + measure(layer, disk) > disk for layer in self._layers)
        if self._watches_memory:
            self.memory_full = exceeds(self._first, self._limits.memory_mb << 10)


def exceeds(first: int, limit_kib: int) -> bool:
    """Whether a process and its descendants use more than the limit; shared pages are divided among their users.

    The proportional size costs a walk of the page tables, so it is read only where the resident sizes alone exceed.
    """
    family = descendants(first)
    if sum(_kib(pid, "status", "VmRSS:") for pid in family) <= limit_kib:
        return False
    return sum(_kib(pid, "smaps_rollup", "Pss:") for pid in family) > limit_kib


def descendants(first: int) -> list[int]:
    """A process and everything below it; a process that ends meanwhile is left out."""
    family = [first]
    for pid in family:  # It grows while it is walked: the depth of the tree is the sandbox's to choose.
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                family += [int(child) for child in children.read_text().split()]
    return family


def _kib(pid: int, table: str, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/{table}").read_bytes().splitlines()  # A process may name itself in any bytes.
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key.encode())), 0)
