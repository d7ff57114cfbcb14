"""Several pieces of asynchronous work at once, and one that is tried a second time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from lego_rl.errors import SandboxError


async def all_of[T](works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do all of some work at once; what fails first ends the rest, and is raised as it is, not in a group.

    Returns:
        What came of each, in their order.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


async def once_more[T](work: Callable[[], Awaitable[T]]) -> T:
    """Do something, and once more where its sandbox could not be had.

    Raises:
        SandboxError: It could not be had either time.
    """
    try:
        return await work()
    except SandboxError:
        return await work()
