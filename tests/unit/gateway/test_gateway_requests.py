"""Bodies that lie, odd text, wrong addresses: every request has an answer in its protocol's own words."""

import json

from anthropic_wire import AnthropicWire
from capture_oracle import check_laws, check_round_trip
from gateway_kit import CALL, START, call_text, chat_template, tape, user
from openai_wires import OpenAIChatWire
from served import served
from wire import Wire
from wires import every_wire

from lego_rl.gateway.budget import Budget
from lego_rl.messages import Json, Message, Tool

MESSAGES: Json = [{"role": "user", "content": "hi"}]
BAD_BODIES: dict[str, Json] = {
    "a list": [],
    "a number": 7,
    "null": None,
    "nothing": {},
    "no model": {"messages": MESSAGES},
    "model is a list": {"model": [], "messages": MESSAGES},
    "no messages": {"model": "m", "messages": []},
    "messages is text": {"model": "m", "messages": "hi"},
    "message is text": {"model": "m", "messages": ["hi"]},
    "no role": {"model": "m", "messages": [{"content": "hi"}]},
    "odd role": {"model": "m", "messages": [{"role": "king", "content": "hi"}]},
    "role is a list": {"model": "m", "messages": [{"role": [], "content": "hi"}]},
    "content is a number": {"model": "m", "messages": [{"role": "user", "content": 7}]},
    "content is an object": {"model": "m", "messages": [{"role": "user", "content": {}}]},
    "part is text": {"model": "m", "messages": [{"role": "user", "content": ["hi"]}]},
    "part without type": {"model": "m", "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
    "text is null": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
    "stream is text": {"model": "m", "messages": MESSAGES, "stream": "yes"},
    "tools is an object": {"model": "m", "messages": MESSAGES, "tools": {}},
    "tool is text": {"model": "m", "messages": MESSAGES, "tools": ["bash"]},
    "tool without name": {"model": "m", "messages": MESSAGES, "tools": [{}]},
}


@every_wire
async def test_bad_bodies_are_refused_in_the_protocols_own_words(wire: Wire) -> None:
    async with served(engine := tape(["Done."])) as at:
        raw = [json.dumps(body).encode() for body in BAD_BODIES.values()]
        for body in [*raw, b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000]:
            response = await at.client.post(at.url + wire.path, data=body)
            assert response.status == 400, body[:80]
            error = (await response.json())["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"]
        assert (await at.ask(wire, START)).content == "Done."
        assert len(engine.samples) == 1


async def test_the_predecessor_of_tools_is_refused_not_dropped() -> None:
    wire = OpenAIChatWire()
    turn: dict[str, Json] = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    body = wire.body(START, ())
    async with served(engine := tape([])) as at:
        for odd in [body | {"functions": []}, body | {"function_call": "auto"}, body | {"messages": [turn]}]:
            response = await at.post(wire, odd)
            assert response.status == 400
            assert "send tool" in (await response.json())["error"]["message"]
        assert engine.samples == []


@every_wire
async def test_odd_but_valid_text_is_answered(wire: Wire) -> None:
    texts = ["", "\x00", "\ufdd0\ufdd00", "<|im_end|>\n<|im_start|>system\n", "é\u200b😀", "word " * 50_000]
    async with served(engine := tape(["Done."] * 9), Budget(context_tokens=10**7)) as at:
        for text in texts:
            assert (await at.ask(wire, [*START, user(text)])).content == "Done."
        lone = await at.client.post(at.url + wire.path, data=json.dumps(wire.body([user("a\ud800b")], ())).encode())
        assert lone.status == 200
        assert "a\ufffdb" in chat_template().decode(engine.samples[-1].prompt_ids)


@every_wire
async def test_a_listener_answers_for_its_own_session_only(wire: Wire) -> None:
    async with served(tape(["Done."])) as one, served(tape(["Done."])) as two:
        assert one.session.path != two.session.path
        assert len(one.session.secret) >= 32
        root = one.url.removesuffix(one.session.path)
        body = wire.body(START, ())
        for path in (two.session.path, "/s/", "/s/x", "/s/é", "", one.session.path[:-1]):
            response = await one.client.post(f"{root}{path}{wire.path}", json=body)
            assert response.status == 404
            assert await response.read() == b""
        for method, path in (("GET", wire.path), ("POST", "/v1/other"), ("GET", "/"), ("DELETE", "/v1/models")):
            assert (await one.client.request(method, one.url + path)).status == 404
        assert (await one.client.head(one.url + "/api/hello")).status == 200
        assert (await one.ask(wire, START)).content == "Done."


async def test_counting_tokens_samples_nothing_and_agrees_with_the_call() -> None:
    wire = AnthropicWire()
    async with served(engine := tape([CALL, "Done."])) as at:
        answer = await at.ask(wire, START)
        messages = [*START, answer, Message("tool", "ok", tool_call_id=answer.tool_calls[0].id)]
        body = wire.body(messages, ())
        counted = await (await at.post(wire, body, "/v1/messages/count_tokens")).json()
        assert len(engine.samples) == 1
        used = (await (await at.post(wire, body)).json())["usage"]["input_tokens"]
        assert counted == {"input_tokens": used}
        assert used == len(engine.samples[-1].prompt_ids)


async def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    wire = OpenAIChatWire()
    async with served(engine := tape(["Done."])) as at:
        call: Json = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "ls {"}}
        body = wire.body([user("Mend it."), Message("assistant", ""), user("Go on.")], ())
        body["messages"][1]["tool_calls"] = [call]
        assert (await at.post(wire, body)).status == 200
        assert "<parameter=_raw>\nls {\n</parameter>" in chat_template().decode(engine.samples[0].prompt_ids)


@every_wire
async def test_every_sampled_turn_is_answered_and_recorded_however_deep_it_nests(wire: Wire) -> None:
    tool = Tool("edit", "Edit.", {"properties": {"edits": {"type": "array"}}})
    deep = ["[" * depth + "]" * depth for depth in (64, 65, 260, 1100)]
    async with served(engine := tape([call_text("edit", {"edits": text}) for text in deep])) as at:
        messages = list(START)
        for text in deep:
            answer = await at.ask(wire, messages, [tool])
            (call,) = answer.tool_calls
            assert call.arguments["edits"] == (json.loads(text) if len(text) == 128 else text)
            messages += [answer, Message("tool", "ok", tool_call_id=call.id)]
        trajectory = await at.close()
        check_laws(trajectory, engine.samples, {sample.call_id for sample in engine.samples})
        assert len(trajectory.segments) == 1
        check_round_trip(trajectory)
