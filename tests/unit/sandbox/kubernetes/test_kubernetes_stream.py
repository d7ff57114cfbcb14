"""How a stream to a keeper ends, and who is told, over a real WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lego_rl.sandbox.channel import SandboxDied
from lego_rl.sandbox.kubernetes import stream as stream_module
from lego_rl.sandbox.kubernetes.frames import FRAME
from lego_rl.sandbox.kubernetes.stream import ERROR, STDOUT, PodStream, StreamEnd

READY = bytes([STDOUT]) + FRAME.pack(0, b"S", 1) + b"\0"
KILLED = {"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with exit code 137"}
NO_RUNTIME = {"status": "Failure", "reason": "InternalError", "message": "error executing command in container"}

type Play = Callable[[web.Request, web.WebSocketResponse], Awaitable[None]]


def says(status: object) -> Play:
    async def play(_: web.Request, socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())
        await socket.close()

    return play


async def cuts(request: web.Request, _: web.WebSocketResponse) -> None:
    assert request.transport is not None
    request.transport.abort()


async def closes(_: web.Request, socket: web.WebSocketResponse) -> None:
    await socket.close()


async def says_too_much(_: web.Request, socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(bytes([STDOUT]) + FRAME.pack(1, b"O", 1 << 30))
    await socket.receive()


async def listens(_: web.Request, socket: web.WebSocketResponse) -> None:
    async for _message in socket:
        pass


@asynccontextmanager
async def opened(play: Play) -> AsyncIterator[PodStream]:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(READY)
        await play(request, socket)
        return socket

    application = web.Application()
    application.router.add_get("/", serve)
    async with TestServer(application) as running, aiohttp.ClientSession() as session:
        stream = await PodStream.open(await session.ws_connect(running.make_url("/")))
        try:
            yield stream
        finally:
            await stream.close()


@pytest.mark.parametrize(
    ("play", "end"),
    [
        (says(KILLED), StreamEnd.PROGRAM),
        (says({"status": "Success"}), StreamEnd.PROGRAM),
        (says_too_much, StreamEnd.PROGRAM),
        (says(NO_RUNTIME), StreamEnd.CUT),
        (says(["?"]), StreamEnd.CUT),
        (cuts, StreamEnd.CUT),
        (closes, StreamEnd.CUT),
    ],
)
async def test_an_end_says_whose_it_is(play: Play, end: StreamEnd) -> None:
    async with asyncio.timeout(20), opened(play) as stream:
        with pytest.raises(SandboxDied):
            await stream.channel.run(["kill"], b"", ())
        assert (stream.end, bool(stream.said)) == (end, True)
        await stream.close()
        assert stream.end is end


async def test_a_host_that_lets_go_has_ended_it() -> None:
    async with asyncio.timeout(20), opened(listens) as stream:
        stream.channel.close()
        await asyncio.wait(stream._tasks)
        assert stream.end is StreamEnd.HUNG_UP


async def test_a_silent_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "KEEP_ALIVE_SECONDS", 0.05)
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hears(_: web.Request, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            heard.put_nowait(message.data)

    async with asyncio.timeout(20), opened(hears) as stream:
        for _ in range(2):
            number, letter, length = FRAME.unpack((await heard.get())[1:])
            assert (number, letter, length) == (stream_module.NO_REQUEST, b"K", 0)
        assert stream.end is None
