"""The chat backend over real connections to a local endpoint that fails in every way real ones do."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from lego_rl.commands.chat_rollouts import check_context
from lego_rl.engine.chat import OpenAIChatBackend
from lego_rl.engine.chat_protocol import ChatReply, ChatSampling, PromptRefusedError, PromptTooLongError
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.engine.protocol import EngineError
from lego_rl.errors import ConfigError
from lego_rl.messages import Message, Tool, ToolCall
from lego_rl.settings import validate
from tests.chat_endpoint import KEY, TOO_LONG, VARIABLE, Endpoint, Says, calling, endpoint, failing, in_turn

ASK = (Message("user", "hello"),)
TOOL = Tool("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


@asynccontextmanager
async def backend(
    says: Says, *, probe: Says = lambda body: "OK", **settings: Any
) -> AsyncIterator[tuple[OpenAIChatBackend, Endpoint]]:
    async with endpoint(says, probe=probe) as served:
        chosen = {"model": "m", "key_env": VARIABLE, "retries": 2, "retry_pause_sec": 0, "url": served.url}
        async with OpenAIChatBackend(ChatSettings(**(chosen | settings))) as made:
            yield made, served


async def ask(made: OpenAIChatBackend, *messages: Message, sampling: ChatSampling | None = None) -> ChatReply:
    return await made.answer(messages or ASK, (TOOL,), sampling or ChatSampling(0.5, 100))


async def test_a_conversation_goes_out_and_an_answer_comes_back() -> None:
    answer = {**calling("bash", command="ls", call_id="abc"), "content": "Look.", "reasoning_content": "Hm."}
    async with backend(lambda body: answer, extra={"top_k": 20}) as (made, served):
        reply = await ask(
            made,
            Message("system", "A."),
            Message("system", "B."),
            Message("user", "go"),
            Message("assistant", "", (ToolCall("x", "bash", {"command": "pwd"}),), reasoning="why"),
            Message("tool", "/", tool_call_id="x"),
            Message("system", "Hurry."),
        )
    assert reply.message == Message(
        "assistant", "Look.", (ToolCall("abc", "bash", {"command": "ls"}),), reasoning="Hm."
    )
    assert (reply.prompt_tokens, reply.answer_tokens, reply.finish_reason) == (100, 7, "stop")
    (body,) = served.bodies
    assert [(message["role"], message["content"]) for message in body["messages"]] == [
        ("system", "A.\n\nB."),
        ("user", "go"),
        ("assistant", ""),
        ("tool", "/"),
        ("user", "Hurry."),
    ]
    assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"command": "pwd"}
    assert "reasoning_content" not in body["messages"][2]
    assert (body["temperature"], body["max_tokens"], body["top_k"], body["tool_choice"]) == (0.5, 100, 20, "auto")
    assert body["tools"][0]["function"]["parameters"] == TOOL.parameters


async def test_the_names_that_endpoints_differ_in_are_the_settings() -> None:
    changed = {"output_key": "max_completion_tokens", "reasoning": "reasoning"}
    async with backend(lambda body: "ok", **changed) as (made, served):
        await ask(made, *ASK, Message("assistant", "a", reasoning="why"), Message("user", "b"))
    assert served.bodies[0]["max_completion_tokens"] == 100
    assert served.bodies[0]["messages"][1]["reasoning"] == "why"


async def test_a_model_that_refuses_a_temperature_is_told_none() -> None:
    async with backend(lambda body: "ok", temperature="leave_out") as (made, served):
        await ask(made, *ASK)
    assert "temperature" not in served.bodies[0]


@pytest.mark.parametrize(
    "answer",
    [
        failing(429, "slow down", **{"Retry-After": "0"}),
        failing(429, "slow down", **{"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}),
        failing(503),
        web.Response(status=502, text="<html>bad gateway</html>"),
        web.Response(status=200, text="<html>not what was asked</html>"),
        web.json_response({"choices": []}),
        web.json_response({"error": {"message": "upstream", "code": 502}}),
    ],
)
async def test_what_passes_is_asked_again(answer: web.Response) -> None:
    async with backend(in_turn(answer, "there")) as (made, served):
        assert (await ask(made)).message.content == "there"
    assert len(served.bodies) == 2
    assert served.probes == 0


async def test_tries_are_bounded_and_a_failing_endpoint_is_an_engine_error() -> None:
    async with backend(lambda body: failing(503, "down"), probe=lambda body: failing(503)) as (made, served):
        with pytest.raises(EngineError, match="HTTP 503: down"):
            await ask(made)
        with pytest.raises(EngineError):
            await made.progressed()
    assert len(served.bodies) == 3


@pytest.mark.parametrize(("status", "asked"), [(500, 3), (400, 1), (403, 1), (404, 1)])
async def test_what_fails_for_one_conversation_alone_is_no_fault_of_the_endpoint(status: int, asked: int) -> None:
    async with backend(lambda body: failing(status, "not this")) as (made, served):
        with pytest.raises(PromptRefusedError, match="not this"):
            await ask(made)
    assert len(served.bodies) == asked


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, TOO_LONG),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "Please reduce the length of the messages"),
        (413, "Request too large"),
        (400, "the request exceeds the available context size, try increasing it"),
        (422, "Input is too long for requested model."),
    ],
)
async def test_a_prompt_that_does_not_fit_is_told_from_others(status: int, words: str) -> None:
    async with backend(lambda body: failing(status, words)) as (made, served):
        with pytest.raises(PromptTooLongError):
            await ask(made)
    assert served.probes == 0


async def test_an_answer_that_takes_too_long_is_given_up_once() -> None:
    async with backend(lambda body: "late", timeout_sec=0.2) as (made, served):
        served.gate.clear()
        with pytest.raises(PromptRefusedError, match=r"no answer within 0\.2 s"):
            await ask(made)
        assert len(served.bodies) == 1


async def test_cancelling_hangs_up() -> None:
    async with backend(lambda body: "never") as (made, served):
        served.gate.clear()
        task = asyncio.create_task(ask(made))
        await served.arrived.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await served.hung_up.wait()


async def test_no_more_calls_are_sent_at_once_than_the_settings_say() -> None:
    async with backend(lambda body: "ok", max_running=2) as (made, served):
        served.gate.clear()
        tasks = [asyncio.create_task(ask(made)) for _ in range(5)]
        await served.arrived.acquire()
        await served.arrived.acquire()
        await asyncio.sleep(0.05)
        assert len(served.bodies) == 2
        served.gate.set()
        await asyncio.gather(*tasks)
    assert len(served.bodies) == 5


@pytest.mark.parametrize(
    ("text", "arguments", "whole"),
    [
        ("{}", {}, True),
        ("", {}, True),
        ('{"command": "l', {"_raw": '{"command": "l'}, False),
        ("[1]", {"_raw": "[1]"}, False),
        ("[" * 200 + "]" * 200, {"_raw": "[" * 200 + "]" * 200}, False),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}, True),
    ],
)
async def test_arguments_that_cannot_be_read_are_kept_as_they_are(
    text: str, arguments: dict[str, str], whole: bool
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": text}}
    async with backend(lambda body: {"role": "assistant", "content": None, "tool_calls": [call]}) as (made, _):
        reply = await ask(made)
    assert (reply.message.tool_calls[0].arguments, reply.well_formed) == (arguments, whole)


@pytest.mark.parametrize(
    ("probe", "says", "fix"),
    [
        (failing(401, f"Incorrect API key provided: {KEY}"), "HTTP 401: Incorrect API key provided: [key]", VARIABLE),
        (failing(404, "no such model"), "HTTP 404: no such model", "'m' is a model there"),
        (failing(400, "temperature must be 1"), "HTTP 400: temperature must be 1", "temperature"),
        (web.Response(status=302, headers={"Location": "https://elsewhere"}), "HTTP 302", "address that it leads to"),
        (failing(402, "no credit"), "HTTP 402", "credit"),
    ],
)
async def test_what_cannot_work_is_one_line_before_anything_starts(
    probe: web.Response, says: str, fix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with backend(lambda body: "ok", probe=lambda body: probe) as (made, served):
        with pytest.raises(ConfigError) as caught:
            await made.check(1.0)
    assert says in caught.value.problem
    assert fix in caught.value.fix
    assert served.keys == {KEY}
    assert KEY not in f"{caught.value!r}{caplog.text}"


@pytest.mark.parametrize(
    ("models", "context"),
    [
        (None, None),
        ({"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 4096}]}, 4096),
        ({"data": [{"id": "m", "context_length": 8192, "pricing": {}}]}, 8192),
        ({"data": [{"id": "m"}]}, None),
        ({"data": [{"id": "other", "max_model_len": 1}]}, None),
        ({"data": [{"id": "m", "max_model_len": "many"}]}, None),
        (["m"], None),
    ],
)
async def test_how_much_context_there_is_is_what_the_endpoint_says(models: object, context: int | None) -> None:
    async with backend(lambda body: "ok") as (made, served):
        served.models = models
        assert await made.context() == context


async def test_an_endpoint_with_less_context_than_a_trial_may_use_is_refused() -> None:
    async with endpoint(lambda body: "ok", models={"data": [{"id": "m", "max_model_len": 4096}]}) as served:
        made = OpenAIChatBackend(ChatSettings(url=served.url, model="m"))
        await check_context(made, "m", 4096)
        with pytest.raises(ConfigError, match="is 4097, and 'm' behind the endpoint has a context of 4096"):
            await check_context(made, "m", 4097)


async def test_an_address_where_nobody_is_is_one_line() -> None:
    async with OpenAIChatBackend(ChatSettings(url="http://127.0.0.1:9/v1", model="m", retries=0)) as made:
        with pytest.raises(ConfigError, match="does not answer"):
            await made.check(1.0)
        with pytest.raises(EngineError):
            await ask(made)


def test_the_key_is_named_and_never_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match=f"environment variable {VARIABLE} holds no key"):
        OpenAIChatBackend(ChatSettings(url="http://h/v1", model="m", key_env=VARIABLE))
    for wrong in ({"key_env": KEY}, {"url": f"https://user:{KEY}@h/v1"}, {"url": f"https://h/v1?key={KEY}"}):
        with pytest.raises(ConfigError) as caught:
            validate(ChatSettings, {"url": "https://h/v1", "model": "m"} | wrong, guide="docs", section="engine")
        assert KEY not in str(caught.value)
    monkeypatch.setenv(VARIABLE, f"{KEY}\nX-Other: 1")
    with pytest.raises(ConfigError, match="is no key"):
        OpenAIChatBackend(ChatSettings(url="http://h/v1", model="m", key_env=VARIABLE))


def test_the_whole_address_is_taken_too() -> None:
    for url in ("https://h/v1", "https://h/v1/", "https://h/v1/chat/completions"):
        assert ChatSettings(url=url, model="m").completions == "https://h/v1/chat/completions"
