"""Conversations beside the main one are told apart by their shape."""

from dataclasses import replace

import pytest
from capture_oracle import check_laws, check_round_trip
from gateway_kit import BASH, CALL, START, tape, user
from openai_wires import OpenAIChatWire
from served import served

from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.trajectory import CallRole
from lego_rl.messages import Message, Tool

WIRE = OpenAIChatWire()


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
SUM_UP = ([Message("system", "Sum it up."), user("Mend it."), Message("assistant", "I look."), user("So?")], ())
SUB = ([Message("system", "Explore."), user("Look.")], (replace(BASH, name="look"),))
OTHER_SUB = ([Message("system", "Explore."), user("Look again.")], SUB[1])
FRESH = ([START[0], user("So far: much.")], (BASH,))
REMINDED = ([*FRESH[0], Message("system", "Be quick.")], (BASH,))
OTHERWISE = ([Message("system", "Be quick."), *FRESH[0]], (BASH,))


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([MAIN, MAIN], ["main", "main"]),
        ([ASK_TITLE, MAIN, MAIN], ["title", "main", "main"]),
        ([MAIN, ASK_TITLE, MAIN], ["main", "title", "main"]),
        ([MAIN, MAIN, ASK_TITLE], ["main", "main", "compaction"]),
        ([MAIN, SUM_UP, MAIN], ["main", "compaction", "main"]),
        ([MAIN, SUB, MAIN, OTHER_SUB], ["main", "subagent", "main", "subagent"]),
        ([MAIN, MAIN, FRESH], ["main", "main", "main"]),
        ([MAIN, MAIN, REMINDED], ["main", "main", "main"]),
        ([MAIN, MAIN, OTHERWISE], ["main", "main", "subagent"]),
        ([(START, ()), ASK_TITLE], ["main", "subagent"]),
    ],
)
async def test_roles(requests: list[tuple[list[Message], tuple[Tool, ...]]], expected: list[str]) -> None:
    assert await roles(*requests) == expected


SUMMARY = "The bug is in add().\nNothing is changed yet.\nNext: run the tests."


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (SUMMARY, "compaction"),
        ("Summary:\n- The bug is in add().\n- Nothing is changed yet.", "compaction"),
        ("The bug is in add().", "main"),
        ("Another question.", "main"),
    ],
    ids=["whole", "written-again", "a-line-of-it", "nothing-of-it"],
)
async def test_a_compaction_in_the_main_conversation_is_told_by_what_becomes_of_it(told: str, expected: str) -> None:
    engine = tape([CALL, SUMMARY, CALL, "Done."])
    async with served(engine) as at:
        answer = await at.ask(WIRE, START)
        result = Message("tool", "out", tool_call_id=answer.tool_calls[0].id)
        await at.ask(WIRE, [*START, answer, result, user("Sum up what happened.")])
        fresh = [START[0], user(f"Go on. {told}")]
        answer = await at.ask(WIRE, fresh)
        await at.ask(WIRE, [*fresh, answer, Message("tool", "out", tool_call_id=answer.tool_calls[0].id)])
        trajectory = await at.close()
    assert [generation.role for generation in trajectory.generations] == ["main", expected, "main", "main"]
    check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})


@pytest.mark.parametrize(
    ("answers", "again", "expected"),
    [
        ((SUMMARY, CALL), "Sum up what happened. Call no tool.", ["compaction", "compaction"]),
        ((CALL, SUMMARY), "Sum up what happened. Call no tool.", ["compaction", "compaction"]),
        ((CALL, SUMMARY), "Sum up.", ["main", "compaction"]),
        ((CALL, "Not now."), "Sum up what happened. Call no tool.", ["main", "main"]),
    ],
    ids=["first-used", "second-used", "something-else", "none-used"],
)
async def test_every_call_that_asks_for_a_compaction_counts_as_one(
    answers: tuple[str, str], again: str, expected: list[str]
) -> None:
    engine = tape([CALL, *answers, "Done."])
    async with served(engine) as at:
        answer = await at.ask(WIRE, START)
        result = Message("tool", "out", tool_call_id=answer.tool_calls[0].id)
        for asked in ("Sum up what happened.", again):
            await at.ask(WIRE, [*START, answer, result, user(asked)])
        await at.ask(WIRE, [START[0], user(f"Go on. {SUMMARY}")])
        trajectory = await at.close()
    assert [generation.role for generation in trajectory.generations] == ["main", *expected, "main"]


EVERY: tuple[CallRole, ...] = ("main", "subagent", "compaction", "title")


@pytest.mark.parametrize("roles", [*((role,) for role in EVERY), EVERY[:3], EVERY[1:]], ids="-".join)
async def test_the_recipe_says_which_roles_train_and_the_others_are_counted(roles: tuple[CallRole, ...]) -> None:
    engine = tape([CALL, CALL, CALL, CALL, "A title.", SUMMARY, CALL])
    async with served(engine, capture=CaptureSettings(train_roles=roles)) as at:
        await at.ask(WIRE, *ASK_TITLE)
        messages = list(START)
        for _ in range(2):
            answer = await at.ask(WIRE, messages)
            messages += [answer, Message("tool", "out", tool_call_id=answer.tool_calls[0].id)]
        await at.ask(WIRE, *SUB)
        await at.ask(WIRE, [Message("system", "Sum up."), *messages[1:2]], ())
        await at.ask(WIRE, [*messages, user("Sum up what happened.")])
        await at.ask(WIRE, [START[0], user(SUMMARY)])
        trajectory = await at.close()
    check_round_trip(trajectory)
    found = [generation.role for generation in trajectory.generations]
    assert found == ["title", "main", "main", "subagent", "compaction", "compaction", "main"]
    check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples}, train_roles=roles)
    assert set(trajectory.accounting.excluded) == {f"role_{role}" for role in found if role not in roles}


async def test_the_tools_of_a_trajectory_are_those_of_the_main_conversation_whatever_trains() -> None:
    async with served(tape([CALL] * 2), capture=CaptureSettings(train_roles=("subagent",))) as at:
        await at.ask(WIRE, *MAIN)
        await at.ask(WIRE, *SUB)
        trajectory = await at.close()
    assert [each.role for each in trajectory.generations] == ["main", "subagent"]
    assert trajectory.tools == (BASH,)
