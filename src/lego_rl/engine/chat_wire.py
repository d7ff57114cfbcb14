"""Chat Completions as a client writes and reads it: neutral messages to a body, and a body to a neutral message.

Source: the public API reference. Thinking comes as ``reasoning_content`` or ``reasoning``, as the providers of open
models send it; it goes back only where the settings say so, for some refuse it.
"""

import json
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from lego_rl.engine.chat_protocol import ChatReply, ChatSampling
from lego_rl.engine.chat_settings import ChatSettings
from lego_rl.engine.protocol import Timings
from lego_rl.json_text import BODY_DEPTH, VALUE_DEPTH, read_json
from lego_rl.messages import Json, Message, Tool, ToolCall, as_templates_take

_RAW = "_raw"
"""In whose place arguments are left that are no JSON object: the harness says so to the policy."""


class NoAnswerError(ValueError):
    """A body that holds no answer."""


class _Function(BaseModel):
    name: str = ""
    arguments: str | dict[str, object] | None = None


class _ToolCall(BaseModel):
    id: str | None = None
    function: _Function = _Function()


class _Model(BaseModel):
    id: str = ""
    max_model_len: int | None = None
    """As vLLM and SGLang call it."""
    context_length: int | None = None
    """As hosts of many models call it."""


class _Models(BaseModel):
    data: list[_Model] = []


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def body_of(
    settings: ChatSettings, messages: Sequence[Message], tools: Sequence[Tool], sampling: ChatSampling
) -> dict[str, Json]:
    """The body of a request."""
    body: dict[str, Json] = {
        **settings.extra,
        "model": settings.model,
        "messages": [_message(message, settings.reasoning) for message in as_templates_take(messages)],
        settings.output_key: sampling.max_tokens,
        "stream": False,
    }
    if settings.temperature == "send":
        body["temperature"] = sampling.temperature
    if tools:
        body |= {"tools": [_tool(tool) for tool in tools], "tool_choice": sampling.tools}
    return body


def context_of(text: str, model: str) -> int | None:
    """What a list of models says of one's context, in tokens; ``None`` where it says nothing that can be read.

    Args:
        text: The list's body.
        model: The model's name.
    """
    try:
        models = _Models.model_validate(read_json(text, depth=BODY_DEPTH))
    except (ValidationError, ValueError):
        return None
    said = next((each for each in models.data if each.id == model), _Model())
    return said.max_model_len or said.context_length


def reply_of(text: str, call_id: str, seconds: float) -> ChatReply:
    """Read an answer.

    Args:
        text: Its body.
        call_id: Of the call.
        seconds: That it took.

    Raises:
        NoAnswerError: It holds none.
    """
    try:
        completion = _Completion.model_validate(read_json(text, depth=BODY_DEPTH))
    except (ValidationError, ValueError) as error:
        raise NoAnswerError(f"the endpoint's answer is no chat completion: {' '.join(text.split())[:120]!r}") from error
    said, usage = completion.choices[0].message, completion.usage or _Usage()
    calls = [_read_call(call) for call in said.tool_calls or ()]
    message = Message(
        "assistant",
        _text(said),
        tuple(call for call, _ in calls),
        reasoning=said.reasoning_content or said.reasoning,
    )
    return ChatReply(
        call_id=call_id,
        message=message,
        finish_reason="length" if completion.choices[0].finish_reason == "length" else "stop",
        prompt_tokens=usage.prompt_tokens,
        answer_tokens=usage.completion_tokens,
        well_formed=all(whole for _, whole in calls),
        timings=Timings(decode=seconds),
    )


def _text(said: _Message) -> str:
    if isinstance(said.content, list):
        return "".join(part.text for part in said.content)
    return said.content or said.refusal or ""


def _read_call(call: _ToolCall) -> tuple[ToolCall, bool]:
    """A call, and whether its arguments could be read."""
    sent = call.function.arguments
    text = sent if isinstance(sent, str) else json.dumps(sent or {})
    try:
        value = read_json(text or "{}", depth=VALUE_DEPTH)
    except ValueError:
        value = None
    whole = isinstance(value, dict)
    return ToolCall(call.id or "", call.function.name, value if isinstance(value, dict) else {_RAW: text}), whole


type _ReasoningName = Literal["leave_out", "reasoning_content", "reasoning"]


def _message(message: Message, reasoning: _ReasoningName) -> dict[str, Json]:
    match message.role:
        case "system" | "user":
            return {"role": message.role, "content": message.content}
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
        case "assistant":
            spec: dict[str, Json] = {"role": "assistant", "content": message.content}
            if message.tool_calls:
                spec["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
            if message.reasoning is not None and reasoning != "leave_out":
                spec[reasoning] = message.reasoning
            return spec


def _tool_call(call: ToolCall) -> dict[str, Json]:
    function: dict[str, Json] = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, Json]:
    parameters: dict[str, Json] = dict(tool.parameters) or {"type": "object", "properties": {}}
    function: dict[str, Json] = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
