"""Clients that wait, leave and ask twice."""

import asyncio

import pytest
from anthropic_wire import AnthropicWire
from capture_oracle import check_laws
from gateway_kit import START, GatedEngine
from served import let_tasks_end, served
from wire import Wire
from wires import every_wire, streamed

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call import Request
from lego_rl.gateway.trajectory import Accounting


@every_wire
async def test_a_stream_gets_headers_and_pings_while_the_engine_works(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine, ping_seconds=0.02) as at:
        response = await asyncio.wait_for(at.post(wire, streamed(wire)), 5)
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        begun = b""
        while begun.count(b"ping") + begun.count(b"keep-alive") < 3:
            begun += await asyncio.wait_for(response.content.readany(), 5)
        engine.may_answer.set()
        assert b"Done." in await response.read()
        check_laws(await at.close(), engine.inner.samples, {engine.inner.samples[0].call_id})


@every_wire
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_that_leaves_aborts_its_generation(wire: Wire, stream: bool) -> None:
    engine = GatedEngine()
    async with served(engine) as at:
        asking = asyncio.create_task(at.post(wire, wire.body(START, ()) | {"stream": stream}))
        await engine.started.wait()
        if stream:
            (await asking).close()
        else:
            asking.cancel()
        await asyncio.wait_for(engine.aborted.wait(), 5)
        await let_tasks_end()
        accounting = (await at.close()).accounting
        assert accounting == Accounting(refused={"client_gone": 1})


@every_wire
async def test_the_newest_of_equal_requests_wins_and_both_get_its_answer(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine) as at:
        older = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        engine.started.clear()
        newer = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        await asyncio.wait_for(engine.aborted.wait(), 5)
        engine.may_answer.set()
        assert (await older).content == (await newer).content == "Done."
        trajectory = await at.close()
        check_laws(trajectory, engine.inner.samples, {engine.inner.samples[0].call_id})
        assert trajectory.accounting.refused == {"superseded": 1}


async def test_equal_requests_of_two_agents_are_two_calls() -> None:
    engine = GatedEngine()
    wire = AnthropicWire()
    async with served(engine) as at:
        headers = [{"x-claude-code-agent-id": name} for name in ("one", "two")]
        posts = [at.client.post(at.url + wire.path, json=wire.body(START, ()), headers=each) for each in headers]
        answers = asyncio.gather(*posts)
        await asyncio.sleep(0.05)
        engine.may_answer.set()
        assert [response.status for response in await answers] == [200, 200]
        check_laws(await at.close(), engine.inner.samples, {sample.call_id for sample in engine.inner.samples})
        assert len(engine.inner.samples) == 2


@every_wire
async def test_a_retry_of_the_last_turn_that_its_first_try_would_take_gets_the_answer(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine, Budget(turns=1)) as at:
        first = asyncio.create_task(at.ask(wire, START))
        await engine.started.wait()
        retry = asyncio.create_task(at.ask(wire, START))
        await asyncio.wait_for(engine.aborted.wait(), 5)
        other = await at.ask(wire, [*START, *START])  # For whoever asks anything else the one turn is taken.
        assert "budget" in other.content
        engine.may_answer.set()
        assert (await first).content == (await retry).content == "Done."
        trajectory = await at.close()
        check_laws(trajectory, engine.inner.samples, {engine.inner.samples[0].call_id})
        assert trajectory.accounting.refused == {"superseded": 1, "turns": 1}


async def test_waiting_that_is_cancelled_before_its_first_step_aborts_the_generation() -> None:
    async with served(GatedEngine()) as at:
        exchange = await at.session.admit(Request(tuple(START), ()))
        work = asyncio.ensure_future(exchange.answer())
        work.cancel()
        await let_tasks_end()
        assert (await at.close()).accounting == Accounting(refused={"client_gone": 1})


@pytest.mark.parametrize("turns", range(4))
async def test_the_older_of_equal_requests_keeps_the_newer_ones_work_alive(turns: int) -> None:
    """Whether the newer one's client leaves before or after the older one's work has ended."""
    engine = GatedEngine()
    async with served(engine) as at:
        first = await at.session.admit(Request(tuple(START), ()))
        older = first.answer()
        await engine.started.wait()
        newer = (await at.session.admit(Request(tuple(START), ()))).answer()
        for _ in range(turns):
            await asyncio.sleep(0)
        newer.cancel()
        await let_tasks_end()
        engine.may_answer.set()
        assert (await older).message.content == "Done."
        first.written()
        trajectory = await at.close()
        check_laws(trajectory, engine.inner.samples, {engine.inner.samples[0].call_id})
        assert trajectory.accounting.refused == {"superseded": 1}


async def test_work_that_both_of_equal_requests_have_left_is_aborted() -> None:
    engine = GatedEngine()
    async with served(engine) as at:
        older, newer = [(await at.session.admit(Request(tuple(START), ()))).answer() for _ in range(2)]
        older.cancel()
        newer.cancel()
        await let_tasks_end()
        assert not engine.inner.samples
        assert (await at.close()).accounting.refused == {"superseded": 1, "client_gone": 1}
