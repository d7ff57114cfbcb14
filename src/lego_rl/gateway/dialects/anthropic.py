"""The Anthropic Messages API, streamed or not, with ``count_tokens``.

Source: the public API reference (version 2023-06-01) and the requests of Claude Code. A user message with tool
results becomes one tool message a result, in order, then a user message of its text. Every block of ``system`` is a
system message of its own; the billing line that Claude Code puts there is for the provider and is left out. A result's
``is_error`` is not shown: chat templates have no place for it, the text of the result says what failed, and the same
conversation must render alike in every protocol. Tools that the provider runs or defines (``web_search_…``,
``bash_…``) are not offered to the policy, which knows nothing of them.
"""

import json
from collections.abc import Iterator, Mapping

from lego_rl.gateway.call import Request, ToolChoice
from lego_rl.gateway.dialects.base import ADVICE, Answer, Asked, BadRequest, Counting, Failure, Problem
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
from lego_rl.gateway.dialects.parts import said, said_in
from lego_rl.gateway.dialects.tools import named_choice
from lego_rl.messages import Json, Message, Tool, ToolCall

_BILLING = "x-anthropic-billing-header:"
_THOUGHTS = ("thinking", "redacted_thinking")
_FAILURES: dict[Problem, tuple[int, str]] = {
    "bad_request": (400, "invalid_request_error"),
    "too_large": (413, "request_too_large"),
    "stalled": (408, "timeout_error"),
    "context": (400, "invalid_request_error"),
    "overloaded": (529, "overloaded_error"),
    "internal": (500, "api_error"),
}


class AnthropicDialect:
    """See `Dialect`."""

    completion_path = "/v1/messages"
    counting: Counting | None = Counting("/v1/messages/count_tokens", "input_tokens")

    def read(self, body: Json, headers: Mapping[str, str]) -> Asked:
        """Read a Messages body; a sub-agent of Claude Code names itself in a header."""
        fields = as_object(body, "body")
        messages = [*_system(fields.get("system"))]
        for made in each_once(_message, as_list(fields.get("messages"), "messages"), "messages.{}"):
            messages += made
        if not messages:
            raise BadRequest("messages", "at least one message is required")
        offered = each_once(_tool, optional_list(fields.get("tools"), "tools"), "tools.{}")
        tools = tuple(tool for tool in offered if tool is not None)
        choice = _choice(fields.get("tool_choice"), [tool.name for tool in tools])
        request = Request(tuple(messages), tools, headers.get("x-claude-code-agent-id", ""), choice)
        return Asked(request, as_flag(fields.get("stream"), "stream"), as_text(fields.get("model"), "model"))

    def reply(self, asked: Asked, answer: Answer, reply_id: str) -> dict[str, Json]:
        """A Message object."""
        message = _envelope(asked, reply_id)
        message["content"] = list(_blocks(answer.message))
        message["stop_reason"] = _stop_reason(answer)
        message["usage"] = _usage(answer.prompt_tokens, answer.sampled_tokens)
        return message

    def opening(self, asked: Asked, prompt_tokens: int, reply_id: str) -> bytes:
        """``message_start``."""
        return _event("message_start", message=_envelope(asked, reply_id) | {"usage": _usage(prompt_tokens, 0)})

    def ping(self) -> bytes:
        """``ping``."""
        return _event("ping")

    def events(self, asked: Asked, answer: Answer, reply_id: str) -> Iterator[bytes]:
        """Content blocks, each whole, and the end of the message."""
        for index, block in enumerate(_blocks(answer.message)):
            yield from _block_events(index, block)
        usage = _usage(answer.prompt_tokens, answer.sampled_tokens)
        yield _event("message_delta", delta={"stop_reason": _stop_reason(answer), "stop_sequence": None}, usage=usage)
        yield _event("message_stop")

    def failure(self, problem: Problem, error: Exception) -> Failure:
        """An error body with the status that Claude Code understands."""
        body: dict[str, Json] = {"type": "error", "error": _error(problem, error)}
        return Failure(_FAILURES[problem][0], body, ADVICE.get(problem, {}))

    def failure_event(self, asked: Asked, problem: Problem, error: Exception, reply_id: str) -> bytes:
        """An ``error`` event."""
        return _event("error", error=_error(problem, error))


def _system(value: Json) -> Iterator[Message]:
    if value is None:
        return
    blocks: list[Json] = [{"type": "text", "text": value}] if isinstance(value, str) else as_list(value, "system")
    for index, block in enumerate(blocks):
        where = f"system.{index}"
        text = as_text(as_object(block, where).get("text"), f"{where}.text")
        if text.strip() and not text.startswith(_BILLING):
            yield Message("system", text)


def _message(fields: Mapping[str, Json], where: str) -> list[Message]:
    role = fields.get("role")
    content = fields.get("content")
    blocks: list[Json] = [{"type": "text", "text": content}]
    if not isinstance(content, str):
        blocks = as_list(content, f"{where}.content")
    read = [as_object(block, f"{where}.content.{index}") for index, block in enumerate(blocks)]
    match role:
        case "assistant":
            return [_assistant(read, where)]
        case "user":
            return _user(read, where)
        case "system":
            told = said_in(read, f"{where}.content")
            return [Message("system", told.text, omitted=told.omitted)]
        case _:
            raise BadRequest(f"{where}.role", "expected user, assistant or system")


def _assistant(blocks: list[Mapping[str, Json]], where: str) -> Message:
    thoughts = [block for block in blocks if block.get("type") in _THOUGHTS]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    spoken = said_in(
        [block for block in blocks if block.get("type") not in (*_THOUGHTS, "tool_use")], f"{where}.content"
    )
    thinking = "".join(optional_text(block.get("thinking"), f"{where}.content.thinking") for block in thoughts)
    return Message(
        "assistant",
        spoken.text,
        tuple(_tool_use(block, where) for block in calls),
        reasoning=thinking if thoughts else None,
        omitted=spoken.omitted,
    )


def _tool_use(block: Mapping[str, Json], where: str) -> ToolCall:
    return ToolCall(
        as_text(block.get("id"), f"{where}.content.id"),
        as_text(block.get("name"), f"{where}.content.name"),
        as_object(block.get("input"), f"{where}.content.input"),
    )


def _user(blocks: list[Mapping[str, Json]], where: str) -> list[Message]:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    text = said_in([block for block in blocks if block.get("type") != "tool_result"], f"{where}.content")
    messages = [_tool_result(block, where) for block in results]
    if text.text or not messages:
        messages.append(Message("user", text.text, omitted=text.omitted))
    return messages


def _tool_result(block: Mapping[str, Json], where: str) -> Message:
    content = said(block.get("content"), f"{where}.content.content")
    call_id = as_text(block.get("tool_use_id"), f"{where}.content.tool_use_id")
    return Message("tool", content.text, tool_call_id=call_id, omitted=content.omitted)


def _tool(fields: Mapping[str, Json], where: str) -> Tool | None:
    """``None`` for a tool of the provider's own."""
    if optional_text(fields.get("type"), f"{where}.type") not in ("", "custom"):
        return None
    return Tool(
        as_text(fields.get("name"), f"{where}.name"),
        optional_text(fields.get("description"), f"{where}.description"),
        optional_object(fields.get("input_schema"), f"{where}.input_schema"),
    )


def _choice(value: Json, offered: list[str]) -> ToolChoice:
    fields = optional_object(value, "tool_choice")
    match fields.get("type", "auto"):
        case "auto":
            return "auto"
        case "none":
            return "none"
        case "any" if offered:
            return "required"
        case "tool":
            return named_choice(as_text(fields.get("name"), "tool_choice.name"), offered, "tool_choice.name")
        case _:
            raise BadRequest("tool_choice.type", "expected auto, any, tool or none, and tools to choose from")


def _error(problem: Problem, error: Exception) -> dict[str, Json]:
    return {"type": _FAILURES[problem][1], "message": str(error)}


def _envelope(asked: Asked, reply_id: str) -> dict[str, Json]:
    return {
        "id": f"msg_{reply_id}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(prompt_tokens: int, sampled_tokens: int) -> dict[str, Json]:
    return {
        "input_tokens": prompt_tokens,
        "output_tokens": sampled_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _stop_reason(answer: Answer) -> str:
    if answer.message.tool_calls:
        return "tool_use"
    return "max_tokens" if answer.truncated else "end_turn"


def _blocks(message: Message) -> Iterator[dict[str, Json]]:
    if message.reasoning is not None:
        yield {"type": "thinking", "thinking": message.reasoning, "signature": ""}
    if message.content or (message.reasoning is None and not message.tool_calls):  # a turn of nothing is a block, too
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}


def _block_events(index: int, block: dict[str, Json]) -> Iterator[bytes]:
    deltas: list[dict[str, Json]]
    match block["type"]:
        case "thinking":
            start = block | {"thinking": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "text":
            start = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        case _:
            start = block | {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **fields: Json) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
