"""A harness's side of each wire format: neutral messages to a request body, and an answer back."""

import contextlib
import io
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp
import pytest
from gateway_kit import BASH, START, chat_template

from lego_rl.engine.protocol import Engine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.messages import Json, Message, Tool, ToolCall


class Wire(Protocol):
    """One wire format as a client speaks it."""

    path: str

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]: ...

    def answer(self, body: Mapping[str, Json]) -> Message: ...


class AnthropicWire:
    path = "/v1/messages"

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "max_tokens": 100,
            "system": [{"type": "text", "text": m.content} for m in messages if m.role == "system"],
            "messages": [self._message(message) for message in messages if message.role != "system"],
            "tools": [
                {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)} for t in tools
            ],
        }

    def _message(self, message: Message) -> dict[str, Json]:
        if message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
            return {"role": "user", "content": [block]}
        if message.role == "user":
            return {"role": "user", "content": message.content}
        blocks: list[Json] = []
        if message.reasoning is not None:
            blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": ""})
        if message.content:
            blocks.append({"type": "text", "text": message.content})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
            for call in message.tool_calls
        ]
        return {"role": "assistant", "content": blocks}

    def answer(self, body: Mapping[str, Json]) -> Message:
        blocks = body["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [
            ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"
        ]
        thinking = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        return Message("assistant", text, tuple(calls), reasoning=thinking[0] if thinking else None)


class OpenAIChatWire:
    path = "/v1/chat/completions"

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "messages": [self._message(message) for message in messages],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
                }
                for t in tools
            ],
        }

    def _message(self, message: Message) -> dict[str, Json]:
        fields: dict[str, Json] = {"role": message.role, "content": message.content}
        if message.tool_call_id is not None:
            fields["tool_call_id"] = message.tool_call_id
        if message.reasoning is not None:
            fields["reasoning_content"] = message.reasoning
        if message.tool_calls:
            fields["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
                }
                for call in message.tool_calls
            ]
        return fields

    def answer(self, body: Mapping[str, Json]) -> Message:
        message = body["choices"][0]["message"]
        calls = [
            ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])
        ]
        return Message("assistant", message["content"] or "", tuple(calls), reasoning=message.get("reasoning_content"))


class OpenAIResponsesWire:
    path = "/v1/responses"

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return {
            "model": "policy",
            "input": [item for message in messages for item in self._items(message)],
            "tools": [
                {"type": "function", "name": t.name, "description": t.description, "parameters": dict(t.parameters)}
                for t in tools
            ],
        }

    def _items(self, message: Message) -> list[dict[str, Json]]:
        if message.role == "tool":
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}]
        if message.role != "assistant":
            part = {"type": "input_text", "text": message.content}
            role = "developer" if message.role == "system" else "user"
            return [{"type": "message", "role": role, "content": [part]}]
        items: list[dict[str, Json]] = []
        if message.reasoning is not None:
            thought = {"type": "reasoning_text", "text": message.reasoning}
            items.append({"type": "reasoning", "id": "rs", "summary": [], "content": [thought]})
        if message.content or not message.tool_calls:
            part = {"type": "output_text", "text": message.content, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        return items + [
            {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": json.dumps(dict(c.arguments))}
            for c in message.tool_calls
        ]

    def answer(self, body: Mapping[str, Json]) -> Message:
        text, reasoning, calls = "", None, []
        for item in body["output"]:
            match item["type"]:
                case "message":
                    text = item["content"][0]["text"]
                case "reasoning":
                    reasoning = item["content"][0]["text"]
                case "function_call":
                    calls.append(ToolCall(item["call_id"], item["name"], json.loads(item["arguments"])))
        return Message("assistant", text, tuple(calls), reasoning=reasoning)


WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "openai-chat": OpenAIChatWire(),
    "openai-responses": OpenAIResponsesWire(),
}

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def streamed(wire: Wire) -> dict[str, Json]:
    """A streamed request that begins a conversation."""
    return wire.body(START, ()) | {"stream": True}


@dataclass
class Served:
    """A session behind a real socket, and a client that speaks one wire format."""

    gateway: Gateway
    session: Session
    url: str
    client: aiohttp.ClientSession

    async def post(self, wire: Wire, body: Json, path: str | None = None) -> aiohttp.ClientResponse:
        data = io.BytesIO(json.dumps(body).encode())
        return await self.client.post(self.url + (path or wire.path), data=data)

    async def ask(self, wire: Wire, messages: Sequence[Message], tools: Sequence[Tool] = (BASH,)) -> Message:
        response = await self.post(wire, wire.body(messages, tools))
        assert response.status == 200, await response.text()
        return wire.answer(await response.json())

    async def close(self) -> Trajectory:
        return await self.gateway.close(self.session)


@contextlib.asynccontextmanager
async def served(
    engine: Engine,
    budget: Budget | None = None,
    *,
    ping_seconds: float = 3.0,
    body_seconds: float = 30.0,
    seed: int | None = None,
    capture: CaptureSettings = DEFAULT_CAPTURE,
    template: ChatTemplate | None = None,
    spool: Path = TEMPORARY,
) -> AsyncIterator[Served]:
    parser = tool_call_parser("qwen3_coder")
    gateway = Gateway(
        engine,
        template or chat_template(),
        parser,
        ping_seconds=ping_seconds,
        body_seconds=body_seconds,
        capture=capture,
        spool=spool,
    )
    session = gateway.open(budget or Budget(), temperature=1.0, seed=seed)
    sock = socket.create_server(("127.0.0.1", 0))
    listener = await gateway.serve(sock, session)
    try:
        async with aiohttp.ClientSession() as client:
            yield Served(gateway, session, f"http://127.0.0.1:{sock.getsockname()[1]}{session.path}", client)
    finally:
        await listener.close()
