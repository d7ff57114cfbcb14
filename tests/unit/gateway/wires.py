"""A harness's side of each wire format: neutral messages to a request body, and an answer back."""

import asyncio
import contextlib
import io
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import pytest
from gateway_kit import BASH, START, Tape, chat_template

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

IMAGE = "iVBORw0K"
SHOWN = "[image]"
"""What stands for an image in the neutral text."""


class Wire(Protocol):
    """One wire format as a client speaks it.

    Attributes:
        path: Of the endpoint that samples, below the session.
        image: A part of a message that is an image.
    """

    @property
    def path(self) -> str: ...

    @property
    def image(self) -> Json: ...

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        """A request."""
        ...

    def answer(self, body: Mapping[str, Json]) -> Message:
        """What a client reads in an answer that is not streamed."""
        ...

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        """The same answer out of the events of a stream."""
        ...

    def heard(self, raw: bytes) -> Message:
        """What a client makes of the bytes of a whole answer."""
        ...


def parts(message: Message, text_type: str, image: Json) -> Json:
    """The content of a message: its text, or parts where it holds images."""
    if not message.omitted:
        return message.content
    pieces = message.content.split(SHOWN)
    texts: list[list[Json]] = [[{"type": text_type, "text": piece}] if piece else [] for piece in pieces]
    return [part for text in texts for part in (*text, image)][:-1]


class AnthropicWire:
    path = "/v1/messages"

    @property
    def image(self) -> Json:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}

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
            content = parts(message, "text", self.image)
            block = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
            return {"role": "user", "content": [block]}
        if message.role == "user":
            return {"role": "user", "content": parts(message, "text", self.image)}
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

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block = blocks[event["index"]]
                for key, piece in event["delta"].items():
                    if key == "partial_json":
                        block["input"] = json.loads(piece)
                    elif key != "type":
                        block[key] += piece
        return {"content": blocks}


class OpenAIChatWire:
    path = "/v1/chat/completions"

    @property
    def image(self) -> Json:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}

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
        fields: dict[str, Json] = {"role": message.role, "content": parts(message, "text", self.image)}
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

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        message: dict[str, Json] = {"content": ""}
        for delta in (choice["delta"] for event in events for choice in event["choices"]):
            for key in ("content", "reasoning_content"):
                if delta.get(key) is not None:
                    message[key] = message.get(key, "") + delta[key]
            message.setdefault("tool_calls", []).extend(delta.get("tool_calls", []))
        return {"choices": [{"message": message}]}


class OpenAIResponsesWire:
    path = "/v1/responses"

    @property
    def image(self) -> Json:
        return {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}", "detail": "high"}

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
            output = parts(message, "input_text", self.image)
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
        if message.role != "assistant":
            content = parts(message, "input_text", self.image)
            if isinstance(content, str):
                content = [{"type": "input_text", "text": content}]
            role = "developer" if message.role == "system" else "user"
            return [{"type": "message", "role": role, "content": content}]
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

    def heard(self, raw: bytes) -> Message:
        return self.answer(json.loads(raw))

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        (last,) = (event["response"] for event in events if event["type"] in RESPONSE_ENDS)
        assert last["output"] == done
        return last


RESPONSE_ENDS = ("response.completed", "response.incomplete")


@dataclass(frozen=True)
class Streamed:
    """A wire format as a client speaks it that asks for streams."""

    inner: Wire

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def image(self) -> Json:
        return self.inner.image

    def body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Json]:
        return self.inner.body(messages, tools) | {"stream": True}

    def answer(self, body: Mapping[str, Json]) -> Message:
        return self.inner.answer(body)

    def put_together(self, events: Sequence[dict[str, Json]]) -> Mapping[str, Json]:
        return self.inner.put_together(events)

    def heard(self, raw: bytes) -> Message:
        lines = [line.removeprefix("data: ") for line in raw.decode().split("\n") if line.startswith("data: ")]
        return self.answer(self.put_together([json.loads(line) for line in lines if line != "[DONE]"]))


WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "openai-chat": OpenAIChatWire(),
    "openai-responses": OpenAIResponsesWire(),
}

FORMS: dict[str, Wire] = WIRES | {f"{name}-streamed": Streamed(wire) for name, wire in WIRES.items()}
"""Every wire format, whole and streamed."""

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
every_form = pytest.mark.parametrize("wire", FORMS.values(), ids=FORMS)


def streamed(wire: Wire) -> dict[str, Json]:
    """A streamed request that begins a conversation."""
    return wire.body(START, ()) | {"stream": True}


def of_lane(lane: str) -> dict[str, str]:
    """The headers in which harnesses say which of their agents asks, one for each protocol."""
    return dict.fromkeys(("x-claude-code-agent-id", "x-session-id", "thread-id"), lane) if lane else {}


SMALL_BUFFER = 4096
"""Bytes that a socket is to hold, about: then a client that does not read is noticed while it is written to."""


def reset(sock: socket.socket) -> None:
    """Close a connection at once: the other side is told so by the host, whatever it was about to send."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def let_tasks_end() -> None:
    """As many turns of the loop as a chain of cancelled tasks takes; a slow machine needs no more of them."""
    for _ in range(50):
        await asyncio.sleep(0)


@dataclass
class Served:
    """A session behind a real socket, and a client that speaks one wire format."""

    gateway: Gateway
    session: Session
    url: str
    client: aiohttp.ClientSession

    async def post(self, wire: Wire, body: Json, path: str | None = None, *, lane: str = "") -> aiohttp.ClientResponse:
        data = io.BytesIO(json.dumps(body).encode())
        return await self.client.post(self.url + (path or wire.path), data=data, headers=of_lane(lane))

    async def ask(
        self, wire: Wire, messages: Sequence[Message], tools: Sequence[Tool] = (BASH,), *, lane: str = ""
    ) -> Message:
        response = await self.post(wire, wire.body(messages, tools), lane=lane)
        assert response.status == 200, await response.text()
        return wire.heard(await response.read())

    async def lose(self, wire: Wire, messages: Sequence[Message], engine: Tape, *, lane: str = "") -> None:
        """Ask on a connection that breaks when the answer is there, before the first byte of it is sent."""
        gone = asyncio.Event()
        with self._connected(wire.body(messages, (BASH,)), wire.path, lane) as sock:

            def hang_up() -> None:
                reset(sock)
                gone.set()

            engine.when_answered = hang_up
            await asyncio.wait_for(gone.wait(), 10)
        engine.when_answered = None
        await let_tasks_end()

    async def leave(self, wire: Wire, messages: Sequence[Message], started: asyncio.Event, *, lane: str = "") -> None:
        """Ask on a connection that breaks once the engine has started."""
        with self._connected(wire.body(messages, (BASH,)), wire.path, lane) as sock:
            await asyncio.wait_for(started.wait(), 10)
            reset(sock)
        await let_tasks_end()

    async def break_off(self, wire: Wire, messages: Sequence[Message], kept: str) -> None:
        """Ask for a stream, and hang up once `kept` of it is there. It must be much longer than what sockets hold."""
        loop = asyncio.get_running_loop()
        read = b""
        with self._connected(wire.body(messages, (BASH,)) | {"stream": True}, wire.path) as sock:
            sock.setblocking(False)
            while kept.encode() not in read:
                piece = await asyncio.wait_for(loop.sock_recv(sock, 1024), 10)
                assert piece, "it ended before that"
                read += piece
            reset(sock)
        await let_tasks_end()

    def _connected(self, body: dict[str, Json], path: str, lane: str = "") -> socket.socket:
        """A request on a connection of its own, of a client that buffers little."""
        place = urlsplit(self.url)
        assert place.port is not None
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        sock.connect(("127.0.0.1", place.port))
        data = json.dumps(body).encode()
        headers = {"Host": "gateway", "Content-Length": str(len(data)), "Content-Type": "application/json"}
        headers |= of_lane(lane)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sock.sendall(f"POST {place.path}{path} HTTP/1.1\r\n{head}\r\n".encode() + data)
        return sock

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
    log: Path | None = None,
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
    session = gateway.open(budget or Budget(), temperature=1.0, seed=seed, log=log)
    async with listening(gateway, session) as at:
        yield at


@contextlib.asynccontextmanager
async def listening(gateway: Gateway, session: Session) -> AsyncIterator[Served]:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    listener = await gateway.serve(sock, session)
    try:
        async with aiohttp.ClientSession() as client:
            yield Served(gateway, session, f"http://127.0.0.1:{sock.getsockname()[1]}{session.path}", client)
    finally:
        await listener.close()
