"""OpenAI Chat Completions, streamed or not.

Source: the public API reference. Assistants' thinking travels as ``reasoning_content``, as vLLM and the providers of
open-weight models send it. Tool arguments are JSON text on the wire; text that is no JSON object was written by a
harness, never by this gateway, and is kept under the key ``_raw``.
"""

import json
from collections.abc import Iterator, Mapping

from lego_rl.gateway.dialects.base import Answer, Asked, BadRequest, Counting, Failure, Problem
from lego_rl.gateway.dialects.fields import as_flag, as_list, as_object, as_text, optional_text, text_of
from lego_rl.gateway.json_text import BODY_DEPTH, TooDeepError, read_json
from lego_rl.gateway.tree import Request
from lego_rl.messages import Json, Message, Tool, ToolCall

_FAILURES: dict[Problem, tuple[int, str, str | None]] = {
    "bad_request": (400, "invalid_request_error", None),
    "too_large": (413, "invalid_request_error", "request_too_large"),
    "context": (400, "invalid_request_error", "context_length_exceeded"),
    "overloaded": (503, "server_error", "overloaded"),
    "internal": (500, "server_error", None),
}
_ADVICE: dict[Problem, dict[str, str]] = {"overloaded": {"retry-after": "1"}, "internal": {"x-should-retry": "false"}}


class OpenAIChatDialect:
    """See `Dialect`."""

    completion_path = "/v1/chat/completions"
    counting: Counting | None = None

    def read(self, body: Json, headers: Mapping[str, str]) -> Asked:
        """Read a chat completion body; OpenCode names the agent's session in a header."""
        fields = as_object(body, "body")
        if fields.get("n") not in (None, 1):
            raise BadRequest("n: only one choice is supported")
        sent = as_list(fields.get("messages"), "messages")
        if not sent:
            raise BadRequest("messages: at least one message is required")
        tools = [] if fields.get("tools") is None else as_list(fields["tools"], "tools")
        options = fields.get("stream_options")
        usage = as_object(options, "stream_options").get("include_usage") if options is not None else None
        request = Request(
            tuple(_message(as_object(m, f"messages[{index}]"), f"messages[{index}]") for index, m in enumerate(sent)),
            tuple(_tool(as_object(tool, f"tools[{index}]"), f"tools[{index}]") for index, tool in enumerate(tools)),
            headers.get("x-session-id", ""),
        )
        return Asked(
            request,
            as_flag(fields.get("stream"), "stream"),
            as_text(fields.get("model"), "model"),
            as_flag(usage, "stream_options.include_usage"),
        )

    def reply(self, asked: Asked, answer: Answer, reply_id: str) -> dict[str, Json]:
        """A chat completion object."""
        message: dict[str, Json] = {"role": "assistant", "content": answer.message.content or None}
        if answer.message.reasoning is not None:
            message["reasoning_content"] = answer.message.reasoning
        if answer.message.tool_calls:
            message["tool_calls"] = [_call(call) for call in answer.message.tool_calls]
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
            yield _chunk(asked, reply_id, {"tool_calls": [{"index": index, **_call(call)}]})
        yield _chunk(asked, reply_id, {}, _finish(answer))
        if asked.stream_usage:
            usage = _envelope(asked, reply_id, "chat.completion.chunk") | {"choices": [], "usage": _usage(answer)}
            yield _data(usage)
        yield b"data: [DONE]\n\n"

    def failure(self, problem: Problem, text: str) -> Failure:
        """An error body with the status that the client libraries understand."""
        return Failure(_FAILURES[problem][0], {"error": _error(problem, text)}, _ADVICE.get(problem, {}))

    def failure_event(self, problem: Problem, text: str) -> bytes:
        """An error object in the stream, which the client libraries raise."""
        return _data({"error": _error(problem, text)})


def _message(fields: Mapping[str, Json], where: str) -> Message:
    content = _text(fields.get("content"), where)
    match fields.get("role"):
        case "system" | "developer":
            return Message("system", content)
        case "user":
            return Message("user", content)
        case "tool":
            return Message("tool", content, tool_call_id=as_text(fields.get("tool_call_id"), f"{where}.tool_call_id"))
        case "assistant":
            calls = [] if fields.get("tool_calls") is None else as_list(fields["tool_calls"], f"{where}.tool_calls")
            thinking = fields.get("reasoning_content")
            return Message(
                "assistant",
                content,
                tuple(_tool_call(as_object(call, where), where) for call in calls),
                reasoning=None if thinking is None else as_text(thinking, f"{where}.reasoning_content"),
            )
        case _:
            raise BadRequest(f"{where}.role: expected system, developer, user, assistant or tool")


def _text(content: Json, where: str) -> str:
    if not isinstance(content, list):
        return optional_text(content, f"{where}.content")
    return text_of([as_object(part, f"{where}.content") for part in content], f"{where}.content")


def _tool_call(fields: Mapping[str, Json], where: str) -> ToolCall:
    function = as_object(fields.get("function"), f"{where}.tool_calls.function")
    text = optional_text(function.get("arguments"), f"{where}.tool_calls.function.arguments")
    return ToolCall(
        as_text(fields.get("id"), f"{where}.tool_calls.id"),
        as_text(function.get("name"), f"{where}.tool_calls.function.name"),
        _arguments(text, f"{where}.tool_calls.function.arguments"),
    )


def _arguments(text: str, where: str) -> Mapping[str, Json]:
    try:
        value = read_json(text or "{}", depth=BODY_DEPTH)
    except TooDeepError as error:
        raise BadRequest(f"{where}: {error}") from error
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_raw": text}


def _tool(fields: Mapping[str, Json], where: str) -> Tool:
    function = as_object(fields.get("function"), f"{where}.function")
    schema = function.get("parameters")
    return Tool(
        as_text(function.get("name"), f"{where}.function.name"),
        optional_text(function.get("description"), f"{where}.function.description"),
        {} if schema is None else as_object(schema, f"{where}.function.parameters"),
    )


def _call(call: ToolCall) -> dict[str, Json]:
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
    return "length" if answer.cut else "stop"


def _error(problem: Problem, text: str) -> dict[str, Json]:
    _, kind, code = _FAILURES[problem]
    return {"message": text, "type": kind, "param": None, "code": code}


def _data(value: dict[str, Json]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
