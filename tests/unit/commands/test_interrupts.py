"""Ctrl-C ends asynchronous work once: what it does to end is left alone, however often it is asked again."""

import asyncio
import os
import signal

import pytest

from lego_rl.commands import interrupts


@pytest.fixture(autouse=True)
def as_from_a_terminal() -> None:
    """A shell's background has programs ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_work_that_ends_gives_its_result() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert interrupts.run(work()) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("times", [1, 2, 5])
def test_what_the_work_does_to_end_is_not_interrupted(times: int) -> None:
    tidied = []

    async def work() -> None:
        try:
            interrupt()
            await asyncio.sleep(60)
        finally:
            for _ in range(times - 1):
                interrupt()
                await asyncio.sleep(0.01)
            tidied.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupts.run(work())
    assert tidied == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_work_that_is_cancelled_by_itself_is_no_interrupt() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        interrupts.run(work())
