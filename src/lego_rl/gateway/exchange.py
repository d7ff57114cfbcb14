"""One request and the work on its answer.

Invariant: whoever waits for an answer gets one, if need be a newer request's; work that nobody waits for is cancelled,
also where the waiting was cancelled before its first step.
"""

import asyncio

from lego_rl.gateway.call import Call
from lego_rl.gateway.dialects.base import Answer


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
        """Cancel this exchange's work in favour of `newer`, which whoever waits here waits for from now on."""
        self._successor = newer
        newer._waiting += self._waiting
        self.abort()

    def abort(self) -> None:
        """Cancel the work."""
        if self._task is not None:
            self._task.cancel()

    def answer(self) -> "asyncio.Task[Answer]":
        """A task that waits for the answer. Cancelling the last one aborts the generation.

        The task raises:
            EngineError: The engine failed; the request may be tried again.
            CaptureError: The engine's answer contradicts itself.
            InternalFault: This side has a bug or a wrong configuration.
        """
        if self._task is None:
            raise RuntimeError("the exchange was never started")
        self._last._waiting += 1
        waiter = asyncio.create_task(self._follow(self._task))
        waiter.add_done_callback(lambda _: self._last._leave())
        return waiter

    @property
    def is_over(self) -> bool:
        """Whether there is an answer, or a failure, if nobody heard of it yet."""
        answered = self.call is not None and self.call.recording is not None
        return answered or (self._task is not None and self._task.done())

    @property
    def _last(self) -> "Exchange":
        """The newest request for the same thing: its work is what everybody waits for."""
        current = self
        while current._successor is not None:
            current = current._successor
        return current

    async def _follow(self, task: "asyncio.Task[Answer]") -> Answer:
        while True:
            await asyncio.wait({task})
            newest = self._last._task
            if newest is None or newest is task:
                return task.result()
            task = newest

    def _leave(self) -> None:
        """One who waited no longer does."""
        self._waiting -= 1
        if not self._waiting:
            self.abort()

    @property
    def answered_by(self) -> Call | None:
        """The call whose answer whoever waits here gets: a newer request's, where one superseded this one."""
        return self._last.call

    def written(self) -> None:
        """The response was fully written."""
        if (call := self.answered_by) is not None:
            call.written = True
