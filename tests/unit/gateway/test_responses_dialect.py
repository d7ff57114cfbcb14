"""The Responses API as Codex and the official client speak it: items, tools in all their shapes, the event sequence."""

import json
from typing import Any

import openai
import pytest
from gateway_kit import BASH, call_text, chat_template, tape
from openai_wires import OpenAIResponsesWire
from served import served

from lego_rl.gateway.dialects.base import Answer, Asked, BadRequest, ToolForm
from lego_rl.gateway.dialects.openai_chat import OpenAIChatDialect
from lego_rl.gateway.dialects.openai_responses import OpenAIResponsesDialect
from lego_rl.messages import Json, Message, Tool, ToolCall

RESPONSES = OpenAIResponsesDialect()
FREE_FORM = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
GRAMMAR: Json = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
EDIT = {"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": GRAMMAR}
SPAWN = {"type": "function", "name": "spawn", "description": "Start.", "parameters": {"type": "object"}}
AGENTS = {"type": "namespace", "name": "agents", "description": "Sub-agents.", "tools": [SPAWN, EDIT]}


def read(items: Json, **fields: Json) -> Asked:
    return RESPONSES.read({"model": "m", "input": items, **fields}, {})


def messages(*items: Json) -> tuple[Message, ...]:
    return read(list(items)).request.messages


def call(name: str, arguments: str, call_id: str = "c1", **fields: Json) -> dict[str, Json]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def spoken(text: str) -> dict[str, Json]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def thought(text: str) -> dict[str, Json]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def test_a_text_and_instructions() -> None:
    asked = read("Hi", instructions="Be brief.", stream=True)
    assert asked.request.messages == (Message("system", "Be brief."), Message("user", "Hi"))
    assert asked.stream
    assert read("Hi", instructions=None).request.messages == (Message("user", "Hi"),)


def test_roles_and_ways_to_write_a_message() -> None:
    parts: Json = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}]
    assert messages(
        {"type": "message", "role": "developer", "content": "one"},
        {"role": "system", "content": "two"},
        {"type": "message", "id": "msg_1", "role": "user", "content": parts},
        {"role": "assistant", "content": "plain"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ) == (
        Message("system", "one"),
        Message("system", "two"),
        Message("user", "a[image]", omitted=("image",)),
        Message("assistant", "plain"),
        Message("assistant", "No."),
    )


def test_items_of_one_turn_are_one_message() -> None:
    assert messages(
        {"role": "user", "content": "Mend it."},
        thought("hm"),
        spoken("Both."),
        call("bash", '{"command": "ls"}'),
        call("bash", '{"command": "pwd"}', "c2"),
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "/repo"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "in short"}], "encrypted_content": "x"},
        spoken("Done."),
    )[1:] == (
        Message(
            "assistant",
            "Both.",
            (ToolCall("c1", "bash", {"command": "ls"}), ToolCall("c2", "bash", {"command": "pwd"})),
            reasoning="hm",
        ),
        Message("tool", "a.py", tool_call_id="c1"),
        Message("tool", "/repo", tool_call_id="c2"),
        Message("assistant", "Done.", reasoning="in short"),
    )


def test_what_goes_back_in_the_order_of_a_turn_begins_the_next() -> None:
    encrypted: Json = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    turns = messages(
        spoken("one"), spoken("two"), thought("three"), thought("four"), call("bash", "{}"), spoken("five"), encrypted
    )
    assert [(turn.content, turn.reasoning, len(turn.tool_calls)) for turn in turns] == [
        ("one", None, 0),
        ("two", None, 0),
        ("", "three", 0),
        ("", "four", 1),
        ("five", None, 0),
    ]


def test_calls_that_a_harness_sends_back() -> None:
    text = "*** Begin Patch\n"
    (turn,) = messages(
        call("bash", '{"cmd": '),
        call("spawn", '{"message": "look"}', "c2", namespace="agents"),
        {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": text, "status": "completed"},
    )
    assert turn.tool_calls == (
        ToolCall("c1", "bash", {"_raw": '{"cmd": '}),
        ToolCall("c2", "agents.spawn", {"message": "look"}),
        ToolCall("c3", "apply_patch", {"input": text}),
    )


def test_items_that_a_text_conversation_has_no_place_for_are_named() -> None:
    assert messages({"type": "web_search_call", "id": "ws_1", "status": "completed"}) == (
        Message("user", "[web_search_call]", omitted=("web_search_call",)),
    )


def test_tools_in_all_their_shapes() -> None:
    bash: Json = {"type": "function", "name": "bash", "description": "Run.", "parameters": dict(BASH.parameters)}
    hosted: Json = {"type": "web_search", "external_web_access": True}
    later: Json = {"type": "additional_tools", "role": "developer", "tools": [AGENTS]}
    asked = read(
        [later, {"role": "user", "content": "Hi"}], tools=[bash, hosted, EDIT, {"type": "custom", "name": "js"}]
    )
    edit = Tool("apply_patch", "Edit files.\n\nstart: /.+/", FREE_FORM)
    assert asked.request.tools == (
        Tool("bash", "Run.", BASH.parameters),
        edit,
        Tool("js", "", FREE_FORM),
        Tool("agents.spawn", "Start.", {"type": "object"}),
        Tool("agents.apply_patch", edit.description, FREE_FORM),
    )
    assert asked.forms == {
        "apply_patch": ToolForm("apply_patch", free_form=True),
        "js": ToolForm("js", free_form=True),
        "agents.spawn": ToolForm("spawn", "agents"),
        "agents.apply_patch": ToolForm("apply_patch", "agents", free_form=True),
    }


def test_every_agent_of_codex_has_a_thread_of_its_own() -> None:
    asked = RESPONSES.read({"model": "m", "input": "Hi"}, {"thread-id": "t2", "session-id": "s"})
    assert asked.request.lane == "t2"


CALLS = (
    ToolCall("c1", "agents.spawn", {"message": "look"}),
    ToolCall("c2", "apply_patch", {"input": '{"a": 1}'}),
    ToolCall("c3", "apply_patch", {"input": "x", "path": "a.py"}),
    ToolCall("c4", "unknown", {"input": "x"}),
)


def test_calls_are_written_as_their_tools_ask_and_read_back_as_they_were() -> None:
    asked = read("Hi", tools=[AGENTS, EDIT])
    body: Any = RESPONSES.reply(asked, Answer(Message("assistant", "", CALLS, reasoning="hm"), False, 3, 4), "r")
    sent = [(item["type"], item.get("name"), item.get("namespace")) for item in body["output"]]
    assert sent == [
        ("reasoning", None, None),
        ("function_call", "spawn", "agents"),
        ("custom_tool_call", "apply_patch", None),
        ("function_call", "apply_patch", None),
        ("function_call", "unknown", None),
    ]
    assert messages(*body["output"]) == (Message("assistant", "", CALLS, reasoning="hm"),)
    assert body["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }


def test_chat_completions_have_free_form_tools_too() -> None:
    chat = OpenAIChatDialect()
    tool: Json = {
        "type": "custom",
        "custom": {"name": "apply_patch", "format": {"type": "grammar", "grammar": GRAMMAR}},
    }
    body: dict[str, Json] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
    asked = chat.read(body, {})
    assert asked.request.tools == (Tool("apply_patch", "start: /.+/", FREE_FORM),)
    answer: Any = chat.reply(asked, Answer(Message("assistant", "", CALLS[1:3]), False, 1, 1), "r")
    (choice,) = answer["choices"]
    assert [each["type"] for each in choice["message"]["tool_calls"]] == ["custom", "function"]
    again = chat.read(body | {"messages": [choice["message"]]}, {})
    assert again.request.messages == (Message("assistant", "", CALLS[1:3]),)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"type": 7}]}, "input[0].type"),
        ({"input": [{"role": "king", "content": "hi"}]}, "input[0].role"),
        ({"input": [{"content": "hi"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [call("bash", "{}") | {"call_id": None}]}, "input[0].call_id"),
        ({"input": [{"type": "custom_tool_call", "call_id": "c", "name": "x"}]}, "input[0].input"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [call("bash", "[" * 200 + "]" * 200)]}, "input[0].arguments"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": "hi", "instructions": []}, "instructions"),
        ({"input": "hi", "tools": {}}, "tools"),
        ({"input": "hi", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": "hi", "tools": [{"name": "bash"}]}, "tools[0].type"),
        ({"input": "hi", "tools": [{"type": "namespace", "name": "n", "tools": [7]}]}, "tools[0].tools[0]"),
        ({"input": "hi", "stream": "yes"}, "stream"),
        ({"input": "hi", "previous_response_id": 7}, "previous_response_id"),
    ],
)
def test_a_body_that_breaks_the_protocol_is_refused_by_its_place(fields: dict[str, Json], place: str) -> None:
    with pytest.raises(BadRequest) as refused:
        RESPONSES.read({"model": "m", **fields}, {})
    assert refused.value.place == place


EVENTS = [
    *("created", "in_progress"),
    *("output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done"),
    *("content_part.done", "output_item.done"),
    *("output_item.added", "content_part.added", "output_text.delta", "output_text.done"),
    *("content_part.done", "output_item.done"),
    *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
    *("output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done"),
    "completed",
]


async def test_the_events_of_a_stream_and_what_they_put_together() -> None:
    reply = "<think>\nhm\n</think>\n\nBoth.\n" + call_text("bash", {"command": "ls"})
    reply += call_text("apply_patch", {"input": "+one\n+two"})
    body = OpenAIResponsesWire().body([Message("user", "Hi")], (BASH,))
    body["tools"].append(EDIT)
    async with served(tape([reply, reply])) as at:
        whole = await (await at.post(OpenAIResponsesWire(), body)).json()
        response = await at.post(OpenAIResponsesWire(), body | {"stream": True})
        events = [json.loads(line[6:]) for line in (await response.text()).splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == [f"response.{name}" for name in EVENTS]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    assert [{**item, "id": "", "call_id": ""} for item in done] == [
        {**item, "id": "", "call_id": ""} for item in whole["output"]
    ]
    for kind, key in (
        ("output_text", "text"),
        ("function_call_arguments", "arguments"),
        ("custom_tool_call_input", "input"),
    ):
        (delta,) = [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
        (told,) = [event[key] for event in events if event["type"] == f"response.{kind}.done"]
        assert delta == told


async def test_a_turn_without_text_is_an_empty_one_that_clients_send_back() -> None:
    async with served(engine := tape(["", "Done."])) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x", max_retries=0) as client:
            async with client.responses.stream(model="m", input="Hi") as events:
                response = await events.get_final_response()
            assert response.output_text == ""
            items: list[Any] = [{"role": "user", "content": "Hi"}, *(item.to_dict() for item in response.output)]
            await client.responses.create(model="m", input=[*items, {"role": "user", "content": "Go on."}])
        trajectory = await at.close()
        assert len(trajectory.segments) == 1
        assert trajectory.accounting.delivered_fraction == 1.0
        assert len(engine.samples) == 2


async def test_the_policy_sees_a_free_form_tool_as_a_function_of_one_text() -> None:
    async with served(engine := tape(["Done."])) as at:
        await at.post(OpenAIResponsesWire(), {"model": "m", "input": "Hi", "tools": [EDIT, AGENTS]})
        prompt = chat_template().decode(engine.samples[0].prompt_ids)
        assert "start: /.+/" in prompt
        assert "agents.spawn" in prompt
