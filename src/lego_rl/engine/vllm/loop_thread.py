"""An event loop in a thread of its own, for connections that outlive the loops of those who use them.

Invariant: whoever awaits `run` from any loop, or blocks in `call`, gets the coroutine's own result or error; cancelling
the one cancels the other.
"""

import asyncio
import threading
from collections.abc import Coroutine


class LoopThread:
    """Runs coroutines in a thread until it is closed.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def run[T](self, coroutine: Coroutine[None, None, T]) -> T:
        """Await a coroutine in the thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def call[T](self, coroutine: Coroutine[None, None, T]) -> T:
        """Block until a coroutine has ended in the thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End the thread; what still runs in it is cancelled."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
