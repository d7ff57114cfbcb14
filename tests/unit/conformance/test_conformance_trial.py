"""Situations at a time: however their run ends, none of them is left in the middle of tidying up."""

import asyncio
from typing import cast

import pytest

from lego_rl.conformance.situations import SITUATIONS, Situation
from lego_rl.conformance.trial import Bench, Report, try_all
from lego_rl.errors import SandboxError


class SlowToClose:
    """In place of a bench: each run waits until it is cancelled, and its sandbox takes a while to close."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.began: list[str] = []
        self.closed: list[str] = []

    async def run(self, situation: Situation) -> Report:
        self.began.append(situation.name)
        try:
            if situation.name == self.fails:
                await asyncio.sleep(0.01)
                raise SandboxError("no more sandboxes")
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            for _ in range(3):
                await asyncio.sleep(0.01)
            self.closed.append(situation.name)


async def test_whoever_is_cancelled_closes_every_sandbox_first() -> None:
    bench = SlowToClose()
    work = asyncio.create_task(try_all(cast(Bench, bench), SITUATIONS, at_once=3))
    await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(bench.began) == 3
    assert sorted(bench.closed) == sorted(bench.began)


async def test_a_failure_ends_the_others_and_is_told_as_it_is() -> None:
    bench = SlowToClose(fails="malformed")
    with pytest.raises(SandboxError, match="no more sandboxes"):
        await try_all(cast(Bench, bench), SITUATIONS, at_once=2)
    assert {"fix", "malformed"} <= set(bench.began)
    assert sorted(bench.closed) == sorted(bench.began)
