"""Images and other parts that a text model cannot see: answered, named in their place, never trained after."""

from typing import Any

import pytest
from capture_oracle import check_round_trip
from gateway_kit import BASH, CALL, START, Tape, chat_template, tape, user
from served import Served, served
from wire import Wire
from wires import every_wire

from lego_rl.gateway.call import Request
from lego_rl.messages import Message


def with_image(wire: Wire, messages: list[Message]) -> dict[str, Any]:
    """A body whose last message, of the user or of a tool, is an image and nothing else."""
    body: dict[str, Any] = wire.body(messages, (BASH,))
    last = body.get("input", body.get("messages"))[-1]
    if last.get("type") == "function_call_output":
        last["output"] = [wire.image]
    elif isinstance(last["content"], list) and last["content"][0]["type"] == "tool_result":
        last["content"][0]["content"] = [wire.image]
    else:
        last["content"] = [wire.image]
    return body


async def ask(at: Served, wire: Wire, body: dict[str, Any]) -> Message:
    response = await at.post(wire, body)
    assert response.status == 200, await response.text()
    return wire.answer(await response.json())


async def check(at: Served, engine: Tape, *, seen: int) -> None:
    """The first `seen` calls are one segment; the others are excluded because of an image."""
    trajectory = await at.close()
    blind = engine.samples[seen:]
    assert "[image]" in chat_template().decode(blind[0].prompt_ids)
    assert trajectory.accounting.excluded == {"image": sum(len(sample.token_ids) for sample in blind)}
    trained = sum(len(sample.token_ids) for sample in engine.samples[:seen])
    assert trajectory.accounting.trainable_tokens == trained
    assert trajectory.accounting.delivered_fraction == trained / trajectory.accounting.sampled_tokens < 1.0
    assert [segment.calls for segment in trajectory.segments] == (
        [tuple(sample.call_id for sample in engine.samples[:seen])] if seen else []
    )
    assert all(segment.route_coverage == 1.0 for segment in trajectory.segments)
    assert [call.fate for call in trajectory.generations] == ["delivered"] * len(engine.samples)
    (conversation,) = trajectory.conversations
    assert sum(message.role == "assistant" for message in conversation) == len(engine.samples)
    check_round_trip(trajectory)


@every_wire
async def test_nothing_is_trained_after_an_image_of_the_user(wire: Wire) -> None:
    async with served(engine := tape([CALL, "Done."])) as at:
        start = [*START[:1], user("")]
        answer = await ask(at, wire, with_image(wire, start))
        messages = [*START, answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        body = wire.body(messages, (BASH,))
        key = "input" if "input" in body else "messages"
        position = next(i for i, each in enumerate(body[key]) if each["role"] == "user")
        body[key][position]["content"] = [wire.image]
        assert (await ask(at, wire, body)).content == "Done."
        await check(at, engine, seen=0)


@every_wire
async def test_what_was_sampled_before_an_image_trains(wire: Wire) -> None:
    async with served(engine := tape([CALL, CALL, "Done."])) as at:
        messages = list(START)
        answer = await at.ask(wire, messages)
        messages += [answer, Message("tool", "a.png", tool_call_id=answer.tool_calls[0].id)]
        answer = await at.ask(wire, messages)
        messages += [answer, Message("tool", "", tool_call_id=answer.tool_calls[0].id)]
        assert (await ask(at, wire, with_image(wire, messages))).content == "Done."
        await check(at, engine, seen=2)


@every_wire
async def test_a_conversation_beside_one_with_an_image_trains(wire: Wire) -> None:
    async with served(engine := tape(["A picture.", "Done."])) as at:
        await ask(at, wire, with_image(wire, [*START[:1], user("")]))
        await at.ask(wire, [*START, user("In words, then.")])
        trajectory = await at.close()
        (segment,) = trajectory.segments
        assert segment.calls == (engine.samples[1].call_id,)
        assert trajectory.accounting.excluded == {"image": len(engine.samples[0].token_ids)}
        assert [conversation[-1].content for conversation in trajectory.conversations] == ["Done.", "A picture."]
        check_round_trip(trajectory)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("audio", "audio"),
        ("file", "file"),
        ("what comes next", "other"),
        ("superseded", "other"),
        ("x" * 9_999, "other"),
    ],
)
async def test_the_reason_is_the_kind_of_the_part_and_never_a_word_of_the_agents(kind: str, reason: str) -> None:
    async with served(tape(["Done."])) as at:
        exchange = await at.session.admit(Request((Message("user", f"[{kind}]", omitted=(kind,)),), ()))
        await exchange.answer()
        exchange.written()
        accounting = (await at.close()).accounting
        assert accounting.trainable_tokens == 0
        assert list(accounting.excluded) == [reason]
