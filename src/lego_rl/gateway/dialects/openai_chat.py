"""OpenAI Chat Completions, streamed or not.

Source: the public API reference. Assistants' thinking travels as ``reasoning_content``, as vLLM and the providers of
open-weight models send it.
"""

import json
from collections.abc import Iterator, Mapping

from lego_rl.gateway.call import Request
from lego_rl.gateway.dialects.base import Answer, Asked, BadRequest, Counting, Failure, Problem, ToolForm
from lego_rl.gateway.dialects.fields import (
    as_flag,
    as_list,
    as_object,
    as_text,
    each_once,
    optional_list,
    optional_object,
    optional_text,
)
from lego_rl.gateway.dialects.openai_errors import openai_error, openai_failure
from lego_rl.gateway.dialects.parts import said
from lego_rl.gateway.dialects.tools import (
    arguments_of,
    free_form_call,
    free_form_text,
    free_form_tool,
    openai_choice,
)
from lego_rl.messages import Json, Message, Tool, ToolCall


class OpenAIChatDialect:
    """See `Dialect`."""

    completion_path = "/v1/chat/completions"
    counting: Counting | None = None

    def read(self, body: Json, headers: Mapping[str, str]) -> Asked:
        """Read a chat completion body; OpenCode names the agent's session in a header."""
        fields = as_object(body, "body")
        if fields.get("n") not in (None, 1):
            raise BadRequest("n", "only one choice is supported")
        for key in ("functions", "function_call"):
            if fields.get(key) is not None:
                raise BadRequest(key, "the predecessor of tools is not supported; send tools and tool_choice")
        sent = as_list(fields.get("messages"), "messages")
        if not sent:
            raise BadRequest("messages", "at least one message is required")
        tools = each_once(_tool, optional_list(fields.get("tools"), "tools"), "tools[{}]")
        usage = optional_object(fields.get("stream_options"), "stream_options").get("include_usage")
        request = Request(
            tuple(each_once(_message, sent, "messages[{}]")),
            tuple(tool for tool, _ in tools),
            headers.get("x-session-id", ""),
            openai_choice(fields.get("tool_choice"), [tool.name for tool, _ in tools]),
        )
        return Asked(
            request,
            as_flag(fields.get("stream"), "stream"),
            as_text(fields.get("model"), "model"),
            as_flag(usage, "stream_options.include_usage"),
            forms={tool.name: form for tool, form in tools if form is not None},
        )

    def reply(self, asked: Asked, answer: Answer, reply_id: str) -> dict[str, Json]:
        """A chat completion object."""
        message: dict[str, Json] = {"role": "assistant", "content": answer.message.content or None}
        if answer.message.reasoning is not None:
            message["reasoning_content"] = answer.message.reasoning
        if answer.message.tool_calls:
            message["tool_calls"] = [_call(asked, call) for call in answer.message.tool_calls]
        choice: dict[str, Json] = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
        return _envelope(asked, reply_id, "chat.completion") | {"choices": [choice], "usage": _usage(answer)}

    def opening(self, asked: Asked, prompt_tokens: int, reply_id: str) -> bytes:
        """The chunk that names the role."""
        return _chunk(asked, reply_id, {"role": "assistant", "content": ""})

    def ping(self) -> bytes:
        """A comment, as the event-stream format defines it."""
        return b": keep-alive\n\n"

    def events(self, asked: Asked, answer: Answer, reply_id: str) -> Iterator[bytes]:
        """Reasoning, content, each call whole, the finish reason, usage if asked for."""
        message = answer.message
        if message.reasoning is not None:
            yield _chunk(asked, reply_id, {"reasoning_content": message.reasoning})
        if message.content:
            yield _chunk(asked, reply_id, {"content": message.content})
        for index, call in enumerate(message.tool_calls):
            yield _chunk(asked, reply_id, {"tool_calls": [{"index": index, **_call(asked, call)}]})
        yield _chunk(asked, reply_id, {}, _finish(answer))
        if asked.stream_usage:
            usage = _envelope(asked, reply_id, "chat.completion.chunk") | {"choices": [], "usage": _usage(answer)}
            yield _data(usage)
        yield b"data: [DONE]\n\n"

    def failure(self, problem: Problem, error: Exception) -> Failure:
        """An error body with the status that the client libraries understand."""
        return openai_failure(problem, error)

    def failure_event(self, asked: Asked, problem: Problem, error: Exception, reply_id: str) -> bytes:
        """An error object in the stream, which the client libraries raise."""
        return _data({"error": openai_error(problem, error)})


def _message(fields: Mapping[str, Json], where: str) -> Message:
    content = said(fields.get("content"), f"{where}.content")
    text, omitted = content.text, content.omitted
    match fields.get("role"):
        case "system" | "developer":
            return Message("system", text, omitted=omitted)
        case "user":
            return Message("user", text, omitted=omitted)
        case "tool":
            call_id = as_text(fields.get("tool_call_id"), f"{where}.tool_call_id")
            return Message("tool", text, tool_call_id=call_id, omitted=omitted)
        case "assistant":
            if fields.get("function_call") is not None:
                raise BadRequest(f"{where}.function_call", "the predecessor of tools is not supported; send tool_calls")
            calls = optional_list(fields.get("tool_calls"), f"{where}.tool_calls")
            thinking = fields.get("reasoning_content")
            return Message(
                "assistant",
                text,
                tuple(_tool_call(as_object(call, f"{where}.tool_calls"), f"{where}.tool_calls") for call in calls),
                reasoning=None if thinking is None else as_text(thinking, f"{where}.reasoning_content"),
                omitted=omitted,
            )
        case _:
            raise BadRequest(f"{where}.role", "expected system, developer, user, assistant or tool")


def _tool_call(fields: Mapping[str, Json], where: str) -> ToolCall:
    call_id = as_text(fields.get("id"), f"{where}.id")
    if fields.get("type") == "custom":
        custom = as_object(fields.get("custom"), f"{where}.custom")
        name, text = (as_text(custom.get(key), f"{where}.custom.{key}") for key in ("name", "input"))
        return free_form_call(call_id, name, text)
    function = as_object(fields.get("function"), f"{where}.function")
    return ToolCall(
        call_id,
        as_text(function.get("name"), f"{where}.function.name"),
        arguments_of(
            optional_text(function.get("arguments"), f"{where}.function.arguments"), f"{where}.function.arguments"
        ),
    )


def _tool(fields: Mapping[str, Json], where: str) -> tuple[Tool, ToolForm | None]:
    if fields.get("type") == "custom":
        custom = as_object(fields.get("custom"), f"{where}.custom")
        name = as_text(custom.get("name"), f"{where}.custom.name")
        return free_form_tool(name, custom, f"{where}.custom"), ToolForm(name, free_form=True)
    function = as_object(fields.get("function"), f"{where}.function")
    tool = Tool(
        as_text(function.get("name"), f"{where}.function.name"),
        optional_text(function.get("description"), f"{where}.function.description"),
        optional_object(function.get("parameters"), f"{where}.function.parameters"),
    )
    return tool, None


def _call(asked: Asked, call: ToolCall) -> dict[str, Json]:
    text = free_form_text(call) if call.name in asked.forms else None
    if text is not None:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
    arguments = json.dumps(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _envelope(asked: Asked, reply_id: str, kind: str) -> dict[str, Json]:
    return {"id": f"chatcmpl-{reply_id}", "object": kind, "created": 0, "model": asked.model}


def _chunk(asked: Asked, reply_id: str, delta: dict[str, Json], finish: str | None = None) -> bytes:
    choice: dict[str, Json] = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return _data(_envelope(asked, reply_id, "chat.completion.chunk") | {"choices": [choice]})


def _usage(answer: Answer) -> dict[str, Json]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.sampled_tokens,
        "total_tokens": answer.prompt_tokens + answer.sampled_tokens,
    }


def _finish(answer: Answer) -> str:
    if answer.message.tool_calls:
        return "tool_calls"
    return "length" if answer.truncated else "stop"


def _data(value: dict[str, Json]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
