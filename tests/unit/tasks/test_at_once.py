"""Work that is done at once ends together, and what went wrong comes out as it is."""

import asyncio

import pytest

from lego_rl.errors import SandboxError, TaskError
from lego_rl.tasks.at_once import all_of, once_more


async def test_results_come_in_the_order_of_the_work() -> None:
    async def late(value: int) -> int:
        await asyncio.sleep(0.02 / (value + 1))
        return value

    assert await all_of(late(value) for value in range(4)) == [0, 1, 2, 3]


async def test_a_failure_is_raised_as_it_is_and_ends_the_rest() -> None:
    ended = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise TaskError("no", "mend it")

    async def go_on() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(TaskError, match="no; mend it"):
        await all_of([go_on(), fail(), go_on()])
    assert ended == [True, True]


@pytest.mark.parametrize(("faults", "tries"), [(0, 1), (1, 2)])
async def test_a_sandbox_is_asked_for_once_more(faults: int, tries: int) -> None:
    asked = []

    async def work() -> str:
        asked.append(True)
        if len(asked) <= faults:
            raise SandboxError("no sandbox", "mend the host")
        return "done"

    assert await once_more(work) == "done"
    assert len(asked) == tries


async def test_a_sandbox_that_cannot_be_had_is_an_error() -> None:
    async def work() -> None:
        raise SandboxError("no sandbox", "mend the host")

    with pytest.raises(SandboxError):
        await once_more(work)
