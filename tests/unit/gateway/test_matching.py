"""Which differences are cosmetic, and which are a rewrite."""

from dataclasses import replace

import pytest
from gateway_kit import BASH

from lego_rl.gateway.matching import same_message
from lego_rl.messages import Json, Message, ToolCall

KNOWN = Message(
    "assistant",
    "I look.",
    (
        ToolCall(
            "c1", "bash", {"command": "ls", "timeout": 2000.0, "list": "[1, 2]", "flag": "True", "deep": {"a": [1]}}
        ),
    ),
    reasoning="hm",
)


def with_arguments(**changes: Json) -> Message:
    arguments = dict(KNOWN.tool_calls[0].arguments) | changes
    return replace(KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], arguments=arguments),))


COSMETIC = {
    "nothing": KNOWN,
    "white space": replace(KNOWN, content="\nI look.\n"),
    "reasoning dropped": replace(KNOWN, reasoning=None),
    "reasoning emptied": replace(KNOWN, reasoning=""),
    "reasoning trimmed": replace(KNOWN, reasoning="hm\n"),
    "order": replace(
        KNOWN,
        tool_calls=(replace(KNOWN.tool_calls[0], arguments=dict(reversed(KNOWN.tool_calls[0].arguments.items()))),),
    ),
    "number": with_arguments(timeout=2000),
    "parsed list": with_arguments(list=[1, 2]),
    "parsed flag": with_arguments(flag=True),
    "default filled in": with_arguments(background=False),
    "null filled in": with_arguments(other=None),
    "arguments unread": replace(
        KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], arguments={"__unparsedToolInput": {"raw": "{", "len": 1}}),)
    ),
    "arguments malformed": replace(
        KNOWN,
        tool_calls=(
            replace(KNOWN.tool_calls[0], arguments={"_openhands_malformed_tool_call": True, "error": "no JSON"}),
        ),
    ),
    "not run": replace(
        KNOWN,
        tool_calls=(replace(KNOWN.tool_calls[0], name="invalid", arguments={"tool": "bash", "error": "no such tool"}),),
    ),
    "tool renamed": replace(KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], name="Bash2"),)),
}
REWRITES = {
    "another text": replace(KNOWN, content="I see."),
    "another role": replace(KNOWN, role="user", tool_calls=()),
    "other reasoning": replace(KNOWN, reasoning="well"),
    "calls cleared": replace(KNOWN, tool_calls=()),
    "a call added": replace(KNOWN, tool_calls=(*KNOWN.tool_calls, ToolCall("c2", "bash", {}))),
    "another id": replace(KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], id="c2"),)),
    "another command": with_arguments(command="rm"),
    "another number": with_arguments(timeout=1),
    "another depth": with_arguments(deep={"a": [2]}),
    "a flag for a number": with_arguments(timeout=True),
    "not the default": with_arguments(background=True),
    "unknown argument": with_arguments(other=1),
    "another tool's call": replace(
        KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], name="invalid", arguments={"tool": "read", "error": "none"}),)
    ),
    "an offered tool's call that mentions it": replace(
        KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], name="edit", arguments={"command": "bash"}),)
    ),
    "an unknown tool's call that mentions it": replace(
        KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], name="shell", arguments={"say": "bash", "run": "rm -rf /"}),)
    ),
    "another command, unread": with_arguments(command="rm", __unparsedToolInput=1),
    "another list": with_arguments(list=[True, 2]),
    "argument lost": replace(KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], arguments={"command": "ls"}),)),
}


@pytest.mark.parametrize("sent", COSMETIC.values(), ids=COSMETIC)
def test_cosmetic(sent: Message) -> None:
    assert same_message(KNOWN, sent, [BASH])


@pytest.mark.parametrize("arguments", [KNOWN.tool_calls[0].arguments, {"command": "bash"}], ids=["same", "by name"])
def test_a_call_of_another_tool_that_is_offered_is_a_rewrite(arguments: dict[str, Json]) -> None:
    sent = replace(KNOWN, tool_calls=(replace(KNOWN.tool_calls[0], name="edit", arguments=arguments),))
    assert not same_message(KNOWN, sent, [BASH, replace(BASH, name="edit")])


@pytest.mark.parametrize("sent", REWRITES.values(), ids=REWRITES)
def test_rewrite(sent: Message) -> None:
    assert not same_message(KNOWN, sent, [BASH])


def test_what_others_say_is_compared_as_it_is() -> None:
    said = Message("tool", "out", tool_call_id="c1")
    assert same_message(said, replace(said), [BASH])
    for other in (replace(said, content="out\n"), replace(said, tool_call_id="c2")):
        assert not same_message(said, other, [BASH])


@pytest.mark.parametrize(
    ("known", "sent", "same"),
    [
        (12345678901234567890, 12345678901234567000, True),
        (12345678901234567890, 12345678901234567e3, True),
        (-(2**60) - 1, -(2**60), True),
        (12345678901234567890, 12345678901234560000, False),
        (2**53 - 1, 2**53 - 2, False),
        (10**400, 10**400 + 1, False),
        (10**20, 10**400, False),
        (10**20, True, False),
    ],
)
def test_numbers_that_doubles_cannot_hold_come_back_rounded(known: int, sent: Json, same: bool) -> None:
    assert same_message(with_arguments(timeout=known), with_arguments(timeout=sent), [BASH]) == same
