"""``tool_choice``: calls where they are allowed, text where they are not, and nothing is ever forced on the policy."""

from typing import Any

import pytest
from capture_oracle import check_laws
from gateway_kit import BASH, CALL, START, tape, user
from served import served
from wire import Wire
from wires import WIRES, every_wire

from lego_rl.messages import Json, Message

type Choices = dict[str, dict[str, Json]]

CHOICES: Choices = {
    "/v1/messages": {
        "auto": {"type": "auto", "disable_parallel_tool_use": True},
        "none": {"type": "none"},
        "any": {"type": "any"},
        "named": {"type": "tool", "name": "bash"},
    },
    "/v1/chat/completions": {
        "auto": "auto",
        "none": "none",
        "any": "required",
        "named": {"type": "function", "function": {"name": "bash"}},
        "allowed": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    },
    "/v1/responses": {
        "auto": "auto",
        "none": "none",
        "any": "required",
        "named": {"type": "function", "name": "bash"},
        "allowed": {"type": "allowed_tools", "mode": "required", "tools": []},
    },
}
BAD: Choices = {
    "/v1/messages": {
        "unknown": {"type": "tool", "name": "other"},
        "odd": {"type": "maybe"},
        "text": "auto",
        "unnamed": {"type": "tool"},
    },
    "/v1/chat/completions": {
        "unknown": {"type": "function", "function": {"name": "other"}},
        "odd": "maybe",
        "number": 7,
        "unnamed": {"type": "function", "function": {}},
        "hosted": {"type": "web_search"},
    },
    "/v1/responses": {
        "unknown": {"type": "custom", "name": "other"},
        "odd": "maybe",
        "unnamed": {"type": "function"},
        "hosted": {"type": "web_search"},
    },
}


def cases(choices: Choices, *names: str) -> list[Any]:
    return [
        pytest.param(wire, choice, id=f"{wire_name}-{name}")
        for wire_name, wire in WIRES.items()
        for name, choice in choices[wire.path].items()
        if not names or name in names
    ]


@pytest.mark.parametrize(("wire", "choice"), cases(CHOICES, "auto", "any", "named", "allowed"))
async def test_a_call_is_a_call_and_a_text_is_a_text_whatever_is_asked_for(wire: Wire, choice: Json) -> None:
    async with served(engine := tape([CALL, "Done."])) as at:
        body = wire.body(START, (BASH,)) | {"tool_choice": choice}
        answer = wire.answer(await (await at.post(wire, body)).json())
        assert [call.name for call in answer.tool_calls] == ["bash"]
        assert wire.answer(await (await at.post(wire, body)).json()).content == "Done."
        assert len(engine.samples) == 2


@every_wire
async def test_without_calls_a_call_is_text_under_the_same_prompt(wire: Wire) -> None:
    none = CHOICES[wire.path]["none"]
    async with served(engine := tape([CALL, CALL, "Done."])) as at:
        first = await at.ask(wire, START)
        messages = [*START, first, Message("tool", "a.py", tool_call_id=first.tool_calls[0].id)]
        body = wire.body(messages, (BASH,)) | {"tool_choice": none}
        second = wire.answer(await (await at.post(wire, body)).json())
        assert (second.content, second.tool_calls) == (CALL, ())
        await at.ask(wire, [*messages, second, user("Go on.")])
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
        assert len(trajectory.segments) == 1
        assert trajectory.accounting.tool_parse_faults == 0


@every_wire
async def test_the_same_with_and_without_calls_are_two_requests(wire: Wire) -> None:
    none = CHOICES[wire.path]["none"]
    async with served(engine := tape([CALL, "Done."])) as at:
        await at.ask(wire, START)
        await at.post(wire, wire.body(START, (BASH,)) | {"tool_choice": none})
        trajectory = await at.close()
        assert [call.fate for call in trajectory.generations] == ["delivered", "delivered"]
        assert len(trajectory.segments) == len(engine.samples) == 2


@pytest.mark.parametrize(("wire", "choice"), cases(BAD))
async def test_a_choice_that_cannot_be_is_refused(wire: Wire, choice: Json) -> None:
    async with served(tape([])) as at:
        response = await at.post(wire, wire.body(START, (BASH,)) | {"tool_choice": choice})
        assert response.status == 400
        assert "tool_choice" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(("wire", "choice"), cases(CHOICES, "any", "named"))
async def test_a_call_cannot_be_asked_for_where_no_tool_is_offered(wire: Wire, choice: Json) -> None:
    async with served(tape([])) as at:
        assert (await at.post(wire, wire.body(START, ()) | {"tool_choice": choice})).status == 400
