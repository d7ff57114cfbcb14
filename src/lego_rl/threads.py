"""Work in a thread whose caller does not go on without it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor


async def in_thread[T](work: Callable[[], T], threads: Executor | None = None) -> T:
    """Run `work` in a thread, of `threads` or else of the event loop's own.

    A caller that is cancelled waits for its end. A thread cannot be stopped: whoever leaves early, as
    `asyncio.to_thread` does, removes a folder that is still being written, or starts another thread beside it.
    """
    running = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait({running})
