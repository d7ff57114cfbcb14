"""Asynchronous work for callers that wait for it: `Provider` has methods that block."""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any


def in_a_loop_of_its_own[T](work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in an event loop and a thread of its own, whether or not there is a loop in this one."""
    found: list[T] = []
    failed: list[BaseException] = []

    def target() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001  # raised again below, in the thread that waits
            failed.append(error)

    thread = Thread(target=target)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
