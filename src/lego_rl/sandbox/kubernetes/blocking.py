"""Asynchronous work for callers that wait for it: `Provider` has methods that block."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_a_loop_of_its_own[T](work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in an event loop and a thread of its own, whether or not there is a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
