"""A session behind a real socket, and a client of it."""

import asyncio
import contextlib
import io
import json
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from gateway_kit import BASH, Tape, chat_template
from wire import Wire

from lego_rl.engine.chat_protocol import ChatBackend
from lego_rl.engine.protocol import Engine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import ChatGateway, Gateway, HttpGateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.gateway.transcript import Transcript
from lego_rl.messages import Json, Message, Tool


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
class Served[C]:
    """A session behind a real socket, and a client that speaks one wire format."""

    gateway: HttpGateway[C]
    session: Session[C]
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

    async def close(self) -> C:
        return await self.gateway.close(self.session)


type ChatServed = Served[Transcript]


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
) -> AsyncIterator[Served[Trajectory]]:
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
async def chat_served(
    backend: ChatBackend, budget: Budget | None = None, *, log: Path | None = None
) -> AsyncIterator[Served[Transcript]]:
    gateway = ChatGateway(backend)
    session = gateway.open(budget or Budget(), temperature=1.0, log=log)
    async with listening(gateway, session) as at:
        yield at


@contextlib.asynccontextmanager
async def listening[C](gateway: HttpGateway[C], session: Session[C]) -> AsyncIterator[Served[C]]:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    listener = await gateway.serve(sock, session)
    try:
        async with aiohttp.ClientSession() as client:
            yield Served(gateway, session, f"http://127.0.0.1:{sock.getsockname()[1]}{session.path}", client)
    finally:
        await listener.close()
