"""What no harness can do to the host, nor one trial to the others: calls without end, prompts without end."""

import asyncio
import sys
from types import FrameType

import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import CALL, START, GatedEngine, chat_template, tape, user
from served import served

from lego_rl.engine.protocol import EngineError, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.refusals import ContextOverflow
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.tree import Request, TokenTree
from lego_rl.messages import Message

WIRE = AnthropicWire()


def refuse(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
    raise EngineError("down")


async def test_an_engine_that_fails_is_not_asked_without_end() -> None:
    async with served(ScriptedEngine(refuse), Budget(turns=2)) as at:
        statuses = []
        for _ in range(34):
            response = await at.post(WIRE, WIRE.body(START, ()))
            statuses.append(response.status)
        assert statuses == [529] * 32 + [200] * 2
        assert isinstance(at.session.failure, EngineError)
        trajectory = await at.close()
    assert trajectory.accounting.refused == {"engine_error": 32, "attempts": 2}
    assert trajectory.accounting.budget_hit == "attempts"


async def test_clients_that_hang_up_do_not_get_calls_without_end() -> None:
    engine = GatedEngine()
    async with served(engine, Budget(turns=1)) as at:
        for _ in range(16):
            asking = asyncio.create_task(at.post(WIRE, WIRE.body(START, ())))
            await engine.started.wait()
            asking.cancel()
            await engine.aborted.wait()
            engine.started.clear()
            engine.aborted.clear()
            await asyncio.wait({asking})
        assert (await at.ask(WIRE, START, ())).content.startswith("The budget of this session")
        trajectory = await at.close()
    assert trajectory.accounting.calls == 0
    assert trajectory.accounting.refused == {"client_gone": 16, "attempts": 1}


@pytest.mark.parametrize("reasoning", ["keep", "as_sent"])
async def test_more_messages_than_tokens_are_an_overflow_before_anything_is_rendered(reasoning: str) -> None:
    class Unused(TokenTree):
        def locate(self, request: Request) -> None:
            raise AssertionError("it was looked for")

    budget = Budget(context_tokens=500)
    session = Gateway(
        tape([]),
        chat_template(),
        tool_call_parser("qwen3_coder"),
        capture=CaptureSettings.model_validate({"reasoning": reasoning}),
    ).open(budget, temperature=1.0)
    session._tree = Unused(lambda call, turn, sent: 0)
    messages = (Message("system", "s"), *([user("")] * 501))
    with pytest.raises(ContextOverflow, match="501 tokens > 500"):
        await session.admit(Request(messages, ()))
    with pytest.raises(ContextOverflow):
        await session.count(Request(messages, ()))
    assert session.close().accounting.refused == {"context": 1}


async def test_thousands_of_echoed_turns_are_found_at_once() -> None:
    engine = tape([*(f"<think>\n{index}\n</think>\n\nok" for index in range(100)), CALL])
    session = Gateway(engine, chat_template(), tool_call_parser("qwen3_coder")).open(Budget(), temperature=1.0)
    for index in range(100):
        exchange = await session.admit(Request((*START, user(f"{index}")), ()))
        await exchange.answer()
    turns = [each for index in range(4_000) for each in (Message("assistant", "ok", reasoning=f"r{index}"), user("go"))]
    same = [each for _ in range(4_000) for each in (Message("assistant", "ok"), user("go"))]
    request = Request((*START, *turns, *same), ())
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        position = session._tree.locate(request)
    finally:
        sys.setprofile(None)
    # A few steps a message, not a few for every answer (there are a hundred).
    assert calls < 20 * len(request.messages)
    assert position.parent is None
    assert len(position.reused) == 4_000
