"""Ctrl-C while asynchronous work runs: it is asked to end once, and what it then does to end is not interrupted."""

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, in an event loop of its own.

    Raises:
        KeyboardInterrupt: Somebody asked for the end, once or more often, and `work` has ended.
    """
    return asyncio.run(_interruptible(work))


async def _interruptible[T](work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    asked = False

    def ask(_: int, __: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, ask)
    try:
        return await task
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
