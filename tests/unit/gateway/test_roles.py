"""Conversations beside the main one are told apart by their shape."""

from dataclasses import replace

import pytest
from capture_oracle import check_laws
from gateway_kit import BASH, CALL, START, tape, user
from wires import AnthropicWire, served

from lego_rl.messages import Message, Tool

WIRE = AnthropicWire()


async def roles(*requests: tuple[list[Message], tuple[Tool, ...]]) -> list[str]:
    """Roles of the calls in which each request is asked; a request that starts like the first continues it."""
    engine = tape([CALL] * len(requests))
    async with served(engine) as at:
        echo: list[Message] = []
        for messages, tools in requests:
            main = tools == (BASH,) and messages == START
            answer = await at.ask(WIRE, [*messages, *echo] if main else messages, tools)
            if main:
                echo += [answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        trajectory = await at.close()
    check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
    first = trajectory.generations[0].role
    assert trajectory.conversations[0][:2] == tuple(START) or first != "main"
    return [generation.role for generation in trajectory.generations]


MAIN = (START, (BASH,))
ASK_TITLE = ([Message("system", "Name it."), user("Mend it.")], ())
SUB = ([Message("system", "Explore."), user("Look.")], (replace(BASH, name="look"),))
OTHER_SUB = ([Message("system", "Explore."), user("Look again.")], SUB[1])
FRESH = ([START[0], user("So far: much.")], (BASH,))


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([MAIN, MAIN], ["main", "main"]),
        ([ASK_TITLE, MAIN, MAIN], ["title", "main", "main"]),
        ([MAIN, ASK_TITLE, MAIN], ["main", "title", "main"]),
        ([MAIN, MAIN, ASK_TITLE], ["main", "main", "compaction"]),
        ([MAIN, SUB, MAIN, OTHER_SUB], ["main", "subagent", "main", "subagent"]),
        ([MAIN, MAIN, FRESH], ["main", "main", "main"]),
        ([(START, ()), ASK_TITLE], ["main", "subagent"]),
    ],
)
async def test_roles(requests: list[tuple[list[Message], tuple[Tool, ...]]], expected: list[str]) -> None:
    assert await roles(*requests) == expected
