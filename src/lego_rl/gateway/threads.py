"""Work that would hold up the event loop, and with it every other trial."""

import asyncio
from collections.abc import Callable

LARGE_CHARACTERS = 200_000
"""Text from which on reading or rendering it is worth a thread."""


async def in_thread[T](work: Callable[[], T]) -> T:
    """Run `work` in a thread. A caller that is cancelled waits for its end: a thread cannot be stopped, and whoever
    leaves early must not get to start another one."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait({running})
