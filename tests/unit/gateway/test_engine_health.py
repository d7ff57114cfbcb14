"""Whether an engine that left a call unanswered is to blame: only one that does nothing for anybody."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import override

import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import START, Tape, chat_template, spell, tape
from served import served

from lego_rl.engine.protocol import EngineError, Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.tool_calls import tool_call_parser

WIRE = AnthropicWire()


class Living(Tape):
    """An engine whose signs of life are the test's."""

    def __init__(self, sign: Callable[[], Awaitable[None]]) -> None:
        super().__init__(tape([]).engine)
        self.sign = sign

    @override
    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
        raise AssertionError("a call would wait behind what agents ask for")

    @override
    async def progressed(self) -> None:
        await self.sign()


async def moves() -> None:
    await asyncio.sleep(0)


async def hangs() -> None:
    await asyncio.Event().wait()


async def is_down() -> None:
    raise EngineError("down")


async def has_a_bug() -> None:
    raise KeyError("a bug")


@pytest.mark.parametrize(("sign", "silent"), [(moves, False), (hangs, True), (is_down, True), (has_a_bug, False)])
async def test_an_engine_is_silent_where_it_shows_no_sign_of_life(
    sign: Callable[[], Awaitable[None]], silent: bool
) -> None:
    gateway = Gateway(Living(sign), chat_template(), tool_call_parser("qwen3_coder"))
    assert await gateway.engine_hangs(0.1) is silent


async def test_time_in_which_this_process_stood_still_is_not_held_against_the_engine() -> None:
    moved = asyncio.Event()

    async def moves_later() -> None:
        await moved.wait()

    gateway = Gateway(Living(moves_later), chat_template(), tool_call_parser("qwen3_coder"))
    loop = asyncio.get_running_loop()
    loop.call_soon(time.sleep, 0.6)  # longer than the engine may take, in which no thread of it could report
    loop.call_later(0.7, moved.set)
    assert not await gateway.engine_hangs(0.5)


async def test_whoever_is_cancelled_asks_no_longer() -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def noted() -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    gateway = Gateway(Living(noted), chat_template(), tool_call_parser("qwen3_coder"))
    waiting = asyncio.create_task(gateway.engine_hangs(60))
    await asked.wait()
    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.wait_for(given_up.wait(), 5)
    assert waiting.cancelled()


async def test_a_session_knows_whether_its_newest_call_was_left_without_an_answer() -> None:
    left = [False, True, False]

    async def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        if left.pop(0):
            await asyncio.Event().wait()
        return Reply(spell("Done."))

    async with served(ScriptedEngine(script)) as at:
        await at.ask(WIRE, START)
        assert not at.session.unanswered
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(at.ask(WIRE, START), 0.3)
        for _ in range(100):
            if at.session.unanswered:
                break
            await asyncio.sleep(0.01)
        assert at.session.unanswered
        await at.ask(WIRE, START)
        assert not at.session.unanswered
