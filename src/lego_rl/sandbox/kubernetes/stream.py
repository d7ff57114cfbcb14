"""The host's end of the stream to a pod's keeper (``bridge.py``), in the place of a sandbox's first process.

Invariant: whoever holds the other end of `PodStream.control` speaks to process 1 of the work container as if it were on
this machine: requests with descriptors go in, replies and output come out. When the stream ends, that socket ends.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from dataclasses import dataclass, field

import aiohttp

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied, readable

FRAME = struct.Struct("!IcI")
PIECE = 1 << 18
MAX_FRAME = 8 << 20
STDIN, STDOUT, STDERR, ERROR = range(4)
"""Channels of the WebSocket: the first byte of each message."""
READY_SECONDS = 60.0
ERROR_BYTES = 4096
_log = logging.getLogger(__name__)


@dataclass
class _Request:
    """What is open of one request: the reply's socket and the pipes for its output."""

    reply: socket.socket
    outputs: dict[bytes, asyncio.StreamWriter] = field(default_factory=dict)


class PodStream:
    """A stream to a keeper; `open` starts it, `close` ends it, and the work container with it.

    Attributes:
        channel: Requests to the pod.
        ended: What the cluster said when the stream ended; empty while it lasts.
        hung_up: Whether it was the host that ended it.
    """

    def __init__(self, socket_: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket_
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        mine.setblocking(False)
        self._control = mine
        self.channel = Channel(theirs)
        self._requests: dict[int, _Request] = {}
        self._number = 0
        self._buffer = bytearray()
        self._turn = asyncio.Lock()
        self._said = bytearray()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = ""
        self.hung_up = False
        self._tasks = [asyncio.create_task(self._receive()), asyncio.create_task(self._serve())]

    @classmethod
    async def open(cls, socket_: aiohttp.ClientWebSocketResponse) -> "PodStream":
        """Wait until the keeper has reached process 1 of the work container.

        Raises:
            SandboxError: It has not.
        """
        stream = cls(socket_)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.shield(stream._ready)
        except (TimeoutError, SandboxDied) as error:
            said = stream.ended or "it did not say that it is ready"
            await stream.close()
            raise SandboxError(
                f"the keeper of a pod cannot reach the work container: {said}",
                "see that the image has the Python that sandbox.kubernetes.python names, 3.10 or later",
            ) from error
        except BaseException:
            await stream.close()
            raise
        return stream

    async def close(self) -> None:
        """Hang up."""
        self.hung_up = True
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._end()
        self.channel.close()
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._socket.close()

    async def _say(self, number: int, letter: bytes, body: bytes = b"") -> None:
        data = FRAME.pack(number, letter, len(body)) + body
        async with self._turn:
            for start in range(0, len(data), PIECE):
                await self._socket.send_bytes(bytes([STDIN]) + data[start : start + PIECE])

    async def _serve(self) -> None:
        """Take requests off the control socket, as the first process of a sandbox does, and send them on."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await readable(self._control)
                head, descriptors, _, _ = socket.recv_fds(self._control, 4, 4)
                if len(head) < 4:
                    await self._hang_up()
                    return
                body = bytearray()
                while len(body) < struct.unpack("!I", head)[0]:
                    piece = await loop.sock_recv(self._control, struct.unpack("!I", head)[0] - len(body))
                    if not piece:
                        return
                    body += piece
                await self._start(bytes(body), descriptors)
        except (aiohttp.ClientError, OSError) as error:
            self._end(str(error))
        finally:
            self._control.close()

    async def _hang_up(self) -> None:
        """End the stream, for whoever held the control socket has let go of it: the work container ends with that."""
        self.hung_up = True
        await self._socket.close()
        self._end("the host hung up")

    async def _start(self, body: bytes, descriptors: list[int]) -> None:
        """Open a request; of its descriptors the last is for the reply, those before it are its standard streams."""
        self._number += 1
        number, (*streams, last) = self._number, descriptors
        reply = socket.socket(fileno=last)
        reply.setblocking(False)
        request = self._requests[number] = _Request(reply)
        for letter, descriptor in zip((b"O", b"e"), streams[1:], strict=False):
            request.outputs[letter] = await _writer(descriptor)
        await self._say(number, b"R", body)
        if streams:
            with os.fdopen(streams[0], "rb") as source:
                while piece := await asyncio.to_thread(source.read, 1 << 20):
                    await self._say(number, b"I", piece)
        await self._say(number, b"E")

    async def _receive(self) -> None:
        """Take messages off the WebSocket, until it ends."""
        said = ""
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, data = message.data[0], message.data[1:]
                if channel == STDOUT:
                    self._buffer += data
                    await self._frames()
                elif channel == STDERR:
                    self._said += data[: ERROR_BYTES - len(self._said)]
                elif channel == ERROR:
                    said = _status(data)
        except (aiohttp.ClientError, OSError) as error:
            said = str(error)
        finally:
            errors = " ".join(self._said.decode(errors="replace").split()[-40:])
            self._end(": ".join(text for text in (said or "the stream broke off", errors) if text))

    async def _frames(self) -> None:
        while len(self._buffer) >= FRAME.size:
            number, letter, length = FRAME.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise OSError("the keeper sent a frame that is too large")
            if len(self._buffer) < FRAME.size + length:
                return
            body = bytes(self._buffer[FRAME.size : FRAME.size + length])
            del self._buffer[: FRAME.size + length]
            if number == 0:
                if not self._ready.done():
                    self._ready.set_result(None)
                    self._control.send(b"\0")  # the ready byte that `Channel.ready` waits for
            elif (request := self._requests.get(number)) is not None:
                await self._frame(number, request, letter, body)

    async def _frame(self, number: int, request: _Request, letter: bytes, body: bytes) -> None:
        if letter in (b"S", b"X"):
            with request.reply, contextlib.suppress(OSError):
                if letter == b"S":
                    request.reply.send(body)
        elif (output := request.outputs.get(letter)) is not None:
            try:
                if body:
                    output.write(body)
                    await output.drain()
                else:
                    request.outputs.pop(letter).close()
            except OSError:  # nobody reads it any more
                request.outputs.pop(letter).close()
                await self._say(number, b"C")
        if not request.outputs and request.reply.fileno() < 0:
            del self._requests[number]

    def _end(self, said: str = "it was closed") -> None:
        """Nothing more will come: whoever waits hears of it."""
        self.ended = self.ended or said
        if not self._ready.done():
            self._ready.set_exception(SandboxDied(self.ended))
            self._ready.exception()
        for request in self._requests.values():
            request.reply.close()
            for output in request.outputs.values():
                output.close()
        self._requests.clear()
        self._tasks[1].cancel()  # which closes the control socket


def _status(data: bytes) -> str:
    """What the cluster says about the end of a program, in a ``Status`` object."""
    try:
        return str(json.loads(data).get("message") or "it ended")
    except (ValueError, AttributeError):
        return "it ended"


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    """A pipe's writing end as a stream."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
