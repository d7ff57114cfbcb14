"""What a sandbox cannot make the host spend, however large, deep or many its requests are."""

import asyncio
import io
import json
import threading
from collections.abc import Sequence

import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import BASH, START, TEMPLATE, GatedEngine, chat_template, encoder, spell, tape, user
from hypothesis import given
from hypothesis import strategies as st
from served import served
from wire import Wire
from wires import every_wire

from lego_rl.engine.protocol import EngineError, Sample, Sampling
from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.refusals import BudgetSpent, ContextOverflow
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.threads import REQUESTS
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.messages import Message, Tool, ToolCall
from lego_rl.threads import in_thread

HUGE = "a" * 3_000_000
HUGE_BODIES: dict[str, tuple[list[Message], list[Tool]]] = {
    "text": ([user(HUGE)], []),
    "argument": ([user("x"), Message("assistant", "", (ToolCall("c", "bash", {"command": HUGE}),)), user("y")], [BASH]),
    "schema": ([user("x")], [Tool("bash", "", {"x": [HUGE]})]),
    "empty messages": ([user("")] * 100_000, []),
    "empty tools": ([user("x")], [Tool("t", "")] * 50_000),
    "empty calls": ([user("x"), Message("assistant", "", (ToolCall("c", "bash", {}),) * 30_000), user("y")], [BASH]),
}


@pytest.mark.parametrize(("messages", "tools"), HUGE_BODIES.values(), ids=HUGE_BODIES)
async def test_a_huge_request_does_not_hold_up_the_other_trials(messages: list[Message], tools: list[Tool]) -> None:
    wire = AnthropicWire()
    small = Budget(context_tokens=10_000)
    body = json.dumps(wire.body(messages, tools)).encode()
    async with served(tape(["Done."]), small) as hostile, served(tape(["Done."] * 2000), Budget(turns=2000)) as other:

        async def answered_meanwhile() -> int:
            slow = asyncio.create_task(hostile.client.post(hostile.url + wire.path, data=io.BytesIO(body)))
            answered = 0
            while not slow.done():
                await other.ask(wire, START)
                answered += 1
            assert (await slow).status == 400
            return answered

        # One that was held up would be answered before and after, at most. A busy machine has bad moments.
        assert max([await answered_meanwhile() for _ in range(5)]) > 3


@every_wire
async def test_a_body_over_what_the_context_can_hold_is_refused(wire: Wire) -> None:
    limit = 4 * 2**20 + 64 * 1000
    async with served(tape(["Done."]), Budget(context_tokens=1000)) as at:
        body = json.dumps(wire.body(START, ())).encode()
        assert (await at.client.post(at.url + wire.path, data=io.BytesIO(body.ljust(limit)))).status == 200
        response = await at.client.post(at.url + wire.path, data=io.BytesIO(body.ljust(limit + 1)))
        assert response.status == 413
        assert "error" in await response.json()


async def test_a_session_answers_only_so_many_requests_at_once_and_all_in_the_end() -> None:
    class Crowded(GatedEngine):
        inside = most = 0

        async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, routes_from: int = 0) -> Sample:
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.inside == 32:
                self.may_answer.set()
            sample = await super().generate(prompt_ids, sampling, routes_from=routes_from)
            self.inside -= 1
            return sample

    engine, wire = Crowded(), AnthropicWire()
    engine.inner = tape(["Done."] * 80)
    async with served(engine) as at:
        answers = await asyncio.gather(*(at.ask(wire, [*START, user(f"Part {part}.")]) for part in range(80)))
        assert {answer.content for answer in answers} == {"Done."}
        assert engine.most == 32
        assert (await at.close()).accounting.calls == 80


class CountingTemplate(ChatTemplate):
    """Knows how often it was rendered."""

    renders = 0

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        self.renders += 1
        return super().opening(messages, tools)

    def continuation(self, messages: Sequence[Message], *, after: int) -> list[int]:
        self.renders += 1
        return super().continuation(messages, after=after)


KINDS = ["a", "word ", "<|im_start|>", "\ufdd0", "\n", " \n", "é漢👩", "x = {'a': [1, 2]}\n", "9"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["content", "argument", "schema"])
async def test_only_what_is_far_too_long_is_refused_unrendered(kind: str, place: str) -> None:
    text = f"-{kind * (250_000 // len(kind))}-"
    call = ToolCall("c", "bash", {"command": [text]})
    messages = {"content": [user(text)], "argument": [user("-"), Message("assistant", "-", (call,)), user("-")]}
    tools = (Tool("bash", text, {"x": {"y": text}}) if place == "schema" else BASH,)
    request = Request(tuple(messages.get(place, START)), tools)
    tokens = len(chat_template().opening(request.messages, request.tools))

    async def refused(limit: int) -> bool:
        template = CountingTemplate(encoder(), TEMPLATE)
        budget = Budget(context_tokens=limit)
        parser = tool_call_parser("qwen3_coder")
        session = Gateway(tape(["Done."]), template, parser).open(budget, temperature=1.0)
        try:
            await (await session.admit(request)).answer()
        except ContextOverflow as error:
            assert f"> {limit} maximum" in str(error)
        assert session.close().accounting.calls == (tokens < limit)
        return template.renders == 0

    assert not await refused(tokens + 10)
    assert await refused(tokens // 5)


async def test_large_requests_of_one_trial_do_not_keep_others_waiting_for_a_thread() -> None:
    started, gate = threading.Barrier(9), threading.Event()

    def work() -> None:
        started.wait(10)
        gate.wait(10)

    def last() -> None:
        started.wait(10)

    busy = [asyncio.create_task(in_thread(work, REQUESTS)) for _ in range(8)]
    await in_thread(last, REQUESTS)  # all eight hold a thread
    assert await in_thread(lambda: 7) == 7
    gate.set()
    await asyncio.gather(*busy)


async def test_prompts_that_do_not_fit_are_attempts() -> None:
    wire = AnthropicWire()
    async with served(tape([]), Budget(turns=2, context_tokens=100)) as at:
        body = wire.body([user("word " * 400)], ())
        statuses = [(await at.post(wire, body)).status for _ in range(33)]
        assert statuses == [400] * 32 + [200]
        accounting = (await at.close()).accounting
        assert accounting.refused == {"context": 32, "attempts": 1}
        assert accounting.budget_hit == "attempts"


@pytest.mark.parametrize("spent", ["turns", "wall_clock", "closed"])
async def test_a_session_whose_budget_is_spent_renders_nothing(spent: str) -> None:
    template = CountingTemplate(encoder(), TEMPLATE)
    budget = Budget(turns=1, wall_clock_sec=0.05 if spent == "wall_clock" else 60)
    engine = tape(["Done."])
    session = Gateway(engine, template, tool_call_parser("qwen3_coder")).open(budget, temperature=1.0)
    request = Request(tuple(START), ())
    if spent == "closed":
        session.close()
    else:
        await (await session.admit(request)).answer()
    await asyncio.sleep(0.06 if spent == "wall_clock" else 0)
    before = template.renders
    for _ in range(3):
        assert (await (await session.admit(request)).answer()).sampled_tokens == 0
        with pytest.raises(BudgetSpent):
            await session.count(request)
    assert template.renders == before
    assert session.close().accounting.refused == {spent: 3, "count": 3}


async def test_counts_of_prompt_tokens_are_budgeted() -> None:
    wire = AnthropicWire()
    async with served(tape(["Done."]), Budget(turns=1)) as at:
        posts = [await at.post(wire, wire.body(START, ()), f"{wire.path}/count_tokens") for _ in range(17)]
        assert [response.status for response in posts] == [200] * 16 + [400]
        assert "budget" in (await posts[-1].json())["error"]["message"]
        assert (await at.ask(wire, START)).content == "Done."
        accounting = (await at.close()).accounting
        assert accounting.refused == {"count": 1}
        assert accounting.budget_hit is None


async def test_a_client_that_leaves_cannot_start_a_second_thread() -> None:
    running = most = 0
    gate = threading.Event()

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        gate.wait(5)
        running -= 1

    slot = asyncio.Semaphore(1)

    async def client() -> None:
        async with slot:
            await in_thread(work)

    first, second = asyncio.create_task(client()), asyncio.create_task(client())
    await asyncio.sleep(0.02)
    first.cancel()
    await asyncio.sleep(0.02)
    assert not first.done()
    gate.set()
    await asyncio.wait({first, second})
    assert first.cancelled()
    assert most == 1


@every_wire
async def test_an_overflow_after_which_the_harness_goes_on_did_not_end_the_session(wire: Wire) -> None:
    long = [*START, user("word " * 400)]
    async with served(tape(["Done."] * 2), Budget(context_tokens=300, turns=2)) as at:
        assert (await at.post(wire, wire.body(long, ()))).status == 400
        await at.ask(wire, START, ())  # the harness compacted
        await at.ask(wire, [*START, user("More.")], ())
        accounting = (await at.close()).accounting
        assert accounting.refused == {"context": 1}
        assert accounting.budget_hit is None


# What a harness does in turn: a prompt that fits, or not; and an engine that answers, or fails for now.
STEPS = st.lists(st.sampled_from(["fits", "overflows", "engine fails"]), max_size=8)


@given(STEPS, st.integers(1, 4))
def test_a_budget_was_hit_only_if_nothing_was_answered_after_it(steps: list[str], turns: int) -> None:
    def script(prompt: tuple[int, ...], sampling: Sampling) -> Reply:
        if failing:
            raise EngineError("node down")
        return Reply(spell("Done."))

    engine = ScriptedEngine(script)
    budget = Budget(turns=turns, context_tokens=300)
    session = Gateway(engine, chat_template(), tool_call_parser("qwen3_coder")).open(budget, temperature=1.0, seed=0)
    failing, ended, answered = False, None, 0

    async def ask(index: int, text: str) -> int:
        exchange = await session.admit(Request((user(f"{index} {text}"),), ()))
        return (await exchange.answer()).sampled_tokens

    async def go() -> None:
        nonlocal failing, ended, answered
        for index, step in enumerate(steps):
            failing = step == "engine fails"
            spent = answered == turns
            try:
                sampled = await ask(index, "word " * 400 if step == "overflows" else "")
            except ContextOverflow:
                ended = "context"
            except EngineError:
                pass
            else:
                assert (sampled == 0) == spent
                answered += not spent
                ended = "turns" if spent else None

    asyncio.run(go())
    assert session.close().accounting.budget_hit == ended


async def test_an_answer_to_an_earlier_call_does_not_make_up_for_a_budget() -> None:
    engine, wire = GatedEngine(), AnthropicWire()
    async with served(engine, Budget(turns=1)) as at:
        first = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        await at.ask(wire, [*START, user("Another.")])
        engine.may_answer.set()
        await first
        accounting = (await at.close()).accounting
        assert (accounting.calls, accounting.budget_hit) == (1, "turns")
