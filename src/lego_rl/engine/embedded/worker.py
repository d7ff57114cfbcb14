"""The thread that steps the engine.

Invariant: everything the stepper owns is touched by this thread only. Others leave calls and weight changes in an
inbox, which is emptied between two steps, and get their answers on their own event loop. If a step fails the engine is
unhealthy for good: every call, present and future, fails with the cause, and none is left waiting. Whoever asks for a
sign of life gets it after the next step, and a step is bounded by the engine's options, not by what waits.
"""

import contextlib
import threading
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from lego_rl.engine.embedded.call import Call
from lego_rl.engine.embedded.stats import EngineStats
from lego_rl.engine.embedded.stepper import EngineOptions, Stepper
from lego_rl.engine.embedded.weights import Weights
from lego_rl.engine.protocol import EngineError, Sample


@dataclass(frozen=True, eq=False)
class WeightChange:
    """Weights that wait for the end of the current step.

    Attributes:
        weights: What to sample from.
        version: Their version.
        loop: Where `future` lives.
        future: Resolved when the weights are in use.
    """

    weights: Weights
    version: int
    loop: AbstractEventLoop
    future: "Future[None]"


@dataclass(frozen=True, eq=False)
class SignOfLife:
    """Somebody wants to know whether the thread still takes steps.

    Attributes:
        loop: Where `future` lives.
        future: Resolved after the next step, or at once where there is none to take.
    """

    loop: AbstractEventLoop
    future: "Future[None]"


type _Item = Call | WeightChange | SignOfLife


class Worker:
    """Runs a `Stepper` in a thread of its own.

    Args:
        weights: First weights.
        version: Their version.
        options: Sizes and threads.
    """

    def __init__(self, weights: Weights, version: int, options: EngineOptions) -> None:
        self._stepper = Stepper(weights, version, options, _answer)
        self._threads = options.threads
        self._threads_of_others = torch.get_num_threads()
        self._inbox: deque[_Item] = deque()
        self._watching: list[SignOfLife] = []
        self._wakeup = threading.Condition()
        self._closing = False
        self._failure: EngineError | None = None
        self._thread = threading.Thread(target=self._run, name="embedded-engine", daemon=True)
        self._thread.start()

    @property
    def weights(self) -> Weights:
        """What calls are sampled from now."""
        return self._stepper.weights

    @property
    def version(self) -> int:
        """Version of `weights`."""
        return self._stepper.version

    @property
    def failure(self) -> EngineError | None:
        """Why the engine is unhealthy, if it is."""
        return self._failure

    def stats(self) -> EngineStats:
        """Totals so far."""
        return self._stepper.stats()

    def submit(self, item: _Item) -> None:
        """Leave a call, a weight change or the question for a sign of life in the inbox.

        Raises:
            EngineError: The engine is unhealthy or closed.
        """
        with self._wakeup:
            if self._failure is not None:
                raise EngineError(str(self._failure)) from self._failure
            if self._closing:
                raise EngineError("the engine is closed")
            self._inbox.append(item)
            self._wakeup.notify()

    def wake(self) -> None:
        """Have the thread look at its calls again: one was cancelled."""
        with self._wakeup:
            self._wakeup.notify()

    def close(self) -> None:
        """Stop after the current step, failing what is unfinished, and wait for the thread."""
        with self._wakeup:
            self._closing = True
            self._wakeup.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                while self._collect():
                    if self._stepper.step():
                        self._show_life()
        except Exception as error:  # noqa: BLE001 - handed to every caller, which is the only place it can be raised
            self._fail(EngineError(f"the engine stopped: {type(error).__name__}: {error}"), error)
        else:
            self._fail(EngineError("the engine is closed"), None)
        torch.set_num_threads(self._threads_of_others)

    def _collect(self) -> bool:
        """Empty the inbox, sleeping while there is nothing to do; false when it is time to end."""
        with self._wakeup:
            self._sleep()
            while self._inbox and not self._closing:
                self._accept(self._inbox[0])
                self._inbox.popleft()
            return not self._closing

    def _sleep(self) -> None:
        if not self._idle():
            return
        torch.set_num_threads(self._threads_of_others)
        while self._idle():
            self._wakeup.wait()
        self._threads_of_others = torch.get_num_threads()
        torch.set_num_threads(self._threads)

    def _idle(self) -> bool:
        schedule = self._stepper.schedule
        return not (self._inbox or self._closing or schedule.running or schedule.waiting)

    def _accept(self, item: _Item) -> None:
        match item:
            case Call():
                self._stepper.schedule.waiting.append(item)
            case WeightChange():
                self._stepper.load(item.weights, item.version)
                _post(item.loop, _set_result, item.future, None)
            case SignOfLife():
                self._watching.append(item)

    def _show_life(self) -> None:
        for each in self._watching:
            _post(each.loop, _set_result, each.future, None)
        self._watching.clear()

    def _fail(self, failure: EngineError, cause: Exception | None) -> None:
        failure.__cause__ = cause
        with self._wakeup:
            self._failure = failure
            items: list[_Item] = [*self._inbox, *self._watching, *self._stepper.schedule]
            self._inbox.clear()
            self._watching.clear()
        for item in items:
            error = EngineError(str(failure))
            error.__cause__ = failure
            _post(item.loop, _set_exception, item.future, error)


def _answer(call: Call, sample: Sample) -> None:
    _post(call.loop, _set_result, call.future, sample)


def _post[*Ts](loop: AbstractEventLoop, callback: Callable[[*Ts], None], *args: *Ts) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody awaits the answer any more
        loop.call_soon_threadsafe(callback, *args)


def _set_result[T](future: "Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "Future[Sample] | Future[None]", error: EngineError) -> None:
    if not future.done():
        future.set_exception(error)
