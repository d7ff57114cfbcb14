"""What a session may spend is the gateway's to say, whatever a request asks for."""

import asyncio

from anthropic_wire import AnthropicWire
from capture_oracle import check_laws
from gateway_kit import CALL, START, GatedEngine, chat_template, spell, tape, user
from served import served
from wire import Wire
from wires import every_wire

from lego_rl.engine.protocol import Sampling
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.messages import Message


@every_wire
async def test_the_turn_budget_ends_the_run_with_a_plain_turn_that_nobody_trains(wire: Wire) -> None:
    async with served(engine := tape([CALL] * 3), Budget(turns=2)) as at:
        messages = list(START)
        for _ in range(2):
            answer = await at.ask(wire, messages)
            messages += [answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        last = await at.ask(wire, messages)
        assert last.tool_calls == ()
        assert last.content
        assert (await at.ask(wire, [*messages, last, user("Go on.")])).tool_calls == ()
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
        assert len(engine.samples) == 2
        assert trajectory.accounting.budget_hit == "turns"
        assert trajectory.accounting.refused == {"turns": 2}


async def test_an_answer_echoed_by_a_refused_request_was_delivered() -> None:
    wire = AnthropicWire()
    async with served(engine := tape([CALL, CALL]), Budget(turns=2)) as at:
        older = await at.ask(wire, START)
        await at.ask(wire, START)
        await at.ask(wire, [*START, older, Message("tool", "ok", tool_call_id=older.tool_calls[0].id)])
        check_laws(await at.close(), engine.samples, {engine.samples[0].call_id})


@every_wire
async def test_the_wall_clock_ends_a_call_in_flight(wire: Wire) -> None:
    engine = GatedEngine()
    async with served(engine, Budget(wall_clock_sec=0.2)) as at:
        assert (await asyncio.wait_for(at.ask(wire, START), 5)).tool_calls == ()
        assert engine.aborted.is_set()
        assert (await at.ask(wire, [*START, user("And now?")])).tool_calls == ()
        accounting = (await at.close()).accounting
        assert accounting == Accounting(budget_hit="wall_clock", refused={"wall_clock": 2})


@every_wire
async def test_the_output_budget_cuts_an_answer_and_the_context_budget_caps_it(wire: Wire) -> None:
    long = spell("word " * 50)
    async with served(engine := tape([long, long]), Budget(output_tokens=10)) as at:
        response = await at.post(wire, wire.body(START, ()) | {"max_tokens": 1000})
        said = await response.text()
        assert any(f'"{reason}"' in said for reason in ("max_tokens", "length", "max_output_tokens"))
        assert engine.samplings[0].max_tokens == len(engine.samples[0].token_ids) == 10
    prompt = len(engine.samples[0].prompt_ids)
    async with served(engine := tape([long]), Budget(context_tokens=prompt + 3)) as at:
        await at.ask(wire, START, ())
        assert engine.samplings[0].max_tokens == 3


async def test_a_call_that_the_output_budget_cuts_is_no_fault_of_parsing() -> None:
    async with served(tape([CALL, "<tool_call>\nnothing"]), Budget(output_tokens=10)) as at:
        for _ in range(2):
            await at.post(AnthropicWire(), AnthropicWire().body(START, ()))
        accounting = (await at.close()).accounting
    assert (accounting.truncated, accounting.tool_calls) == (1, 0)
    assert accounting.tool_parse_faults == 1


@every_wire
async def test_sampling_is_the_gateways(wire: Wire) -> None:
    async with served(engine := tape([CALL]), Budget(output_tokens=77), seed=3) as at:
        asked = {"temperature": 0, "top_p": 0.1, "max_tokens": 1, "stop": ["x"], "seed": 9, "stop_sequences": ["ls"]}
        await at.post(wire, wire.body(START, ()) | asked)
        (sampling,) = engine.samplings
        seed = sampling.seed
        assert seed is not None
        assert sampling == Sampling(1.0, 77, chat_template().stop_token_ids, seed)
    async with served(engine := tape([CALL, CALL]), seed=3) as at:
        await at.ask(wire, START, ())
        await at.ask(wire, START, ())
        assert engine.samplings[0].seed == seed
        assert engine.samplings[1].seed != seed


async def test_requests_after_the_end_are_turned_away() -> None:
    wire = AnthropicWire()
    async with served(tape([])) as at:
        await at.close()
        assert (await at.ask(wire, START)).tool_calls == ()
