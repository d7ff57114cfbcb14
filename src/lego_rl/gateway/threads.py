"""Work that would hold up the event loop, and with it every other trial."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

LARGE_CHARACTERS = 200_000
"""Text from which on reading or rendering it is worth a thread."""

REQUESTS = ThreadPoolExecutor(128, thread_name_prefix="request")
"""Threads for what agents send. They are not those in which trials are graded and policies trained: however many large
requests there are, nobody else waits for a free thread."""


async def in_thread[T](work: Callable[[], T], threads: Executor | None = None) -> T:
    """Run `work` in a thread, of `threads` or else of the event loop's own.

    A caller that is cancelled waits for its end: a thread cannot be stopped, and whoever leaves early must not get to
    start another one.
    """
    running = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait({running})
