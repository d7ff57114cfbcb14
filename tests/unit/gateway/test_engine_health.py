"""Whether an engine that left a call unanswered is to blame: who asks for one token is told."""

import asyncio

import pytest
from gateway_kit import START, chat_template, spell
from wires import AnthropicWire, served

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.tool_calls import tool_call_parser

WIRE = AnthropicWire()


async def hangs(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


def is_down(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    raise EngineError("down")


def answers(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    assert (prompt, sampling.max_tokens) == ((chat_template().end_of_turn,), 1)
    return Reply([1])


def has_a_bug(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    raise KeyError("a bug")


@pytest.mark.parametrize(("script", "healthy"), [(answers, True), (hangs, False), (is_down, False), (has_a_bug, True)])
async def test_an_engine_that_is_asked_for_one_token(script: object, healthy: bool) -> None:
    gateway = Gateway(ScriptedEngine(script), chat_template(), tool_call_parser("qwen3_coder"))  # type: ignore[arg-type]
    assert await gateway.engine_answers(0.05) is healthy


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
