"""What the dialects read: the same neutral conversation out of every way to write it."""

from dataclasses import replace

import pytest
from gateway_kit import BASH

from lego_rl.gateway.dialects.anthropic import AnthropicDialect
from lego_rl.gateway.dialects.base import BadRequest
from lego_rl.gateway.dialects.openai_chat import OpenAIChatDialect
from lego_rl.gateway.dialects.openai_responses import OpenAIResponsesDialect
from lego_rl.messages import Json, Message, ToolCall

ANTHROPIC, OPENAI, RESPONSES = AnthropicDialect(), OpenAIChatDialect(), OpenAIResponsesDialect()


def from_anthropic(*messages: Json, system: Json = None) -> tuple[Message, ...]:
    return ANTHROPIC.read({"model": "m", "system": system, "messages": list(messages)}, {}).request.messages


def from_openai(*messages: Json) -> tuple[Message, ...]:
    return OPENAI.read({"model": "m", "messages": list(messages)}, {}).request.messages


def test_anthropic_system_blocks_are_messages_and_the_billing_line_is_not() -> None:
    hi = {"role": "user", "content": "hi"}
    blocks = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0a1b2;"},
        {"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": " "},
        {"type": "text", "text": "Two."},
    ]
    expected = (Message("system", "One."), Message("system", "Two."), Message("user", "hi"))
    assert from_anthropic(hi, system=blocks) == expected
    assert from_anthropic(hi, system="One.") == (expected[0], expected[2])


def test_anthropic_results_come_before_text_and_a_text_model_is_told_of_images() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    content = [
        {"type": "text", "text": "Look: "},
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "out"}, image]},
        {"type": "tool_result", "tool_use_id": "c2", "is_error": True},
        image,
    ]
    assert from_anthropic({"role": "user", "content": content}) == (
        Message("tool", "out[image]", tool_call_id="c1", omitted=("image",)),
        Message("tool", "", tool_call_id="c2"),
        Message("user", "Look: [image]", omitted=("image",)),
    )


def from_responses(*items: Json) -> tuple[Message, ...]:
    return RESPONSES.read({"model": "m", "input": list(items)}, {}).request.messages


NEXT: Json = {"type": "what comes next"}
OMITTED: dict[str, tuple[Json, Json, Json]] = {
    "image": ({"type": "image", "source": {}}, {"type": "image_url", "image_url": {}}, {"type": "input_image"}),
    "file": ({"type": "document", "source": {}}, {"type": "file", "file": {}}, {"type": "input_file"}),
    "audio": ({"type": "audio"}, {"type": "input_audio", "input_audio": {}}, {"type": "input_audio"}),
    "what comes next": (NEXT, NEXT, NEXT),
}


@pytest.mark.parametrize(("name", "parts"), OMITTED.items(), ids=OMITTED)
def test_what_a_text_model_cannot_see_has_one_name_in_every_protocol(name: str, parts: tuple[Json, Json, Json]) -> None:
    before: Json = {"type": "text", "text": "See "}
    anthropic, chat, responses = ({"role": "user", "content": [before, part]} for part in parts)
    assert from_anthropic(anthropic) == from_openai(chat) == from_responses(responses)
    assert from_anthropic(anthropic) == (Message("user", f"See [{name}]", omitted=(name,)),)


@pytest.mark.parametrize("mark", [{}, {"is_error": False}, {"is_error": True}], ids=["none", "false", "true"])
def test_a_failed_result_is_its_text_as_in_the_protocol_that_has_no_mark_for_it(mark: dict[str, Json]) -> None:
    block: Json = {"type": "tool_result", "tool_use_id": "c1", "content": "no such file", **mark}
    sent: Json = {"role": "tool", "tool_call_id": "c1", "content": "no such file"}
    assert from_anthropic({"role": "user", "content": [block]}) == from_openai(sent)


def test_anthropic_assistants_and_late_system_messages() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I "},
        {"type": "text", "text": "look.", "cache_control": {"type": "ephemeral"}},
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
    ]
    assert from_anthropic(
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "note"},
        {"role": "assistant", "content": blocks},
        {"role": "assistant", "content": "plain"},
    )[1:] == (
        Message("system", "note"),
        Message("assistant", "I look.", (ToolCall("c1", "bash", {"command": "ls"}),), reasoning="hm"),
        Message("assistant", "plain"),
    )


def test_openai_messages() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    assert from_openai(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "out"},
        {"role": "assistant", "tool_calls": None},
    ) == (
        Message("system", "Be brief."),
        Message("user", "ab[image]", omitted=("image",)),
        Message("assistant", "", (ToolCall("c1", "bash", {"command": "ls"}),), reasoning="hm"),
        Message("tool", "out", tool_call_id="c1"),
        Message("assistant", ""),
    )


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_a_call_without_arguments(arguments: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    (message,) = from_openai({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls[0].arguments == {}


def test_tools_are_the_same_in_both() -> None:
    body: dict[str, Json] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    function: dict[str, Json] = {"name": "bash", "description": BASH.description, "parameters": dict(BASH.parameters)}
    spec: dict[str, Json] = {"name": "bash", "description": BASH.description, "input_schema": dict(BASH.parameters)}
    bare = replace(BASH, description="", parameters={})
    hosted: Json = {"type": "web_search_20250305", "name": "web_search"}
    sent: Json = [spec | {"type": "custom", "cache_control": {}}, hosted, {"name": "bash"}]
    read = ANTHROPIC.read(body | {"tools": sent}, {}).request.tools
    assert read == (BASH, bare)
    tools: Json = [{"type": "function", "function": function}, {"type": "function", "function": {"name": "bash"}}]
    assert OPENAI.read(body | {"tools": tools}, {}).request.tools == (BASH, bare)


def test_who_asks() -> None:
    body: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert ANTHROPIC.read(body, {"x-claude-code-agent-id": "a7"}).request.lane == "a7"
    assert OPENAI.read(body, {"x-session-id": "s1"}).request.lane == "s1"
    assert ANTHROPIC.read(body, {}).request.lane == OPENAI.read(body, {}).request.lane == ""


class CountedBlock(dict[str, Json]):
    """A content block that knows how often blocks were compared with each other."""

    compared = 0

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        CountedBlock.compared += 1
        return super().__eq__(other)


def test_many_blocks_of_a_turn_are_not_compared_with_each_other() -> None:
    kinds = [("thinking", "thinking"), ("text", "text")]
    blocks: list[Json] = [CountedBlock({"type": kind, key: str(n)}) for kind, key in kinds for n in range(100)]
    text = "".join(map(str, range(100)))
    assert from_anthropic({"role": "assistant", "content": blocks}) == (Message("assistant", text, reasoning=text),)
    assert CountedBlock.compared == 0


def test_the_names_of_found_tools_are_text() -> None:
    found: Json = [{"type": "tool_reference", "tool_name": "WebFetch"}]
    block: Json = {"type": "tool_result", "tool_use_id": "c1", "content": found}
    assert from_anthropic({"role": "user", "content": [block]}) == (Message("tool", "WebFetch", tool_call_id="c1"),)


@pytest.mark.parametrize("kind", [1, [], {}])
def test_the_type_of_a_tool_is_text(kind: Json) -> None:
    body: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "x", "type": kind}]}
    with pytest.raises(BadRequest, match=r"tools\.0\.type"):
        ANTHROPIC.read(body, {})


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("kind", [None, 1, [], {}])
def test_the_type_of_a_block_is_text(role: str, kind: Json) -> None:
    with pytest.raises(BadRequest, match=r"messages\.0\.content\.type"):
        from_anthropic({"role": role, "content": [{"type": kind, "text": "x"}]})
