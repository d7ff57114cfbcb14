"""What the kernel counts of the limits of a work container: asked through process 1, when all others are dead.

The counts are those of the container's own control group, which nothing in it can write. From Linux 6.11 on, with
control groups of version 2, a refused fork is counted where the limit is: one of the whole pod (``podPidsLimit``) is
then not to be seen from inside.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from lego_rl.errors import SandboxError
from lego_rl.sandbox.records import Record

COUNT_SECONDS = 5.0
DIGITS = 20
"""Of the largest number of 64 bits."""
MEMORY = (("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"), "oom_kill")
"""Files, with control groups of version 2 and of version 1, and the word before the count: processes killed."""
PROCESSES = (("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"), "max")
"""The same of processes: forks refused."""

type Get = Callable[[str], Awaitable[list[Record]]]


async def memory_kills(get: Get) -> int:
    """Processes that were killed for memory; 0 where that cannot be told."""
    return await _count(get, *MEMORY)


async def refused_forks(get: Get) -> int:
    """Forks that were refused; 0 where that cannot be told."""
    return await _count(get, *PROCESSES)


async def _count(get: Get, paths: tuple[str, ...], word: str) -> int:
    for path in paths:
        with suppress(SandboxError, TimeoutError):
            async with asyncio.timeout(COUNT_SECONDS):
                records = await get(path)
            if [record.kind for record in records] == ["file"]:
                return count_in(records[0].content, word)
    return 0


def count_in(content: bytes, word: str) -> int:
    """The number after a word at the beginning of a line; 0 where there is none that a kernel counts to."""
    lines = (line.partition(" ")[::2] for line in content.decode(errors="replace").splitlines())
    counts = (count for name, count in lines if name == word)
    return next((int(count) for count in counts if count.isdecimal() and len(count) <= DIGITS), 0)
