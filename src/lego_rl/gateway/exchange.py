"""One request and the work on its answer.

Invariant: whoever waits for an answer gets one, if need be a newer request's; work that nobody waits for is cancelled.
"""

import asyncio

from lego_rl.gateway.dialects.base import Answer
from lego_rl.gateway.tree import Call


class Exchange:
    """One request that is being answered.

    A newer request for the same thing cancels the older one's model call; the older request, where its client still
    waits, then gets the newer one's answer.
    """

    def __init__(self, prompt_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.call: Call | None = None
        self._task: asyncio.Task[Answer] | None = None
        self._successor: Exchange | None = None
        self._waiting = 0

    def start(self, task: "asyncio.Task[Answer]", call: Call | None) -> None:
        """Attach the work."""
        self._task = task
        self.call = call

    def supersede(self, newer: "Exchange") -> None:
        """Cancel this exchange's work in favour of `newer`."""
        self._successor = newer
        self.abort()

    def abort(self) -> None:
        """Cancel the work."""
        if self._task is not None:
            self._task.cancel()

    async def answer(self) -> Answer:
        """Wait for the answer. Cancelling the last one who waits aborts the generation.

        Raises:
            EngineError: The engine failed; the request may be tried again.
            CaptureError: The engine's answer contradicts itself.
            InternalFault: This side has a bug or a wrong configuration.
        """
        current = self
        while True:
            if current._task is None:
                raise RuntimeError("the exchange was never started")
            current._waiting += 1
            try:
                await asyncio.wait({current._task})
            finally:
                current._waiting -= 1
                if not current._waiting and not current._task.done():
                    current.abort()
            if current._successor is None:
                return current._task.result()
            current = current._successor

    def written(self) -> None:
        """The response was fully written."""
        current = self
        while current._successor is not None:
            current = current._successor
        if current.call is not None:
            current.call.written = True
