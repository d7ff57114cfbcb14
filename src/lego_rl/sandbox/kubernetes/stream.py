"""The host's end of the stream to a pod's keeper (``bridge.py``), in the place of a sandbox's first process.

Invariant: whoever holds the other end of `PodStream.control` speaks to process 1 of the work container as if it were on
this machine: requests with descriptors go in, replies and output come out. When the stream ends, that socket ends.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp

from lego_rl.documents import read_json
from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied
from lego_rl.sandbox.kubernetes.frames import FRAME
from lego_rl.sandbox.readable import first_readable

PIECE = 1 << 18
MAX_FRAME = 8 << 20
STDIN, STDOUT, STDERR, ERROR = range(4)
"""Channels of the WebSocket: the first byte of each message."""
READY_SECONDS = 60.0
PROGRAM_ENDED = "NonZeroExitCode"
ERROR_BYTES = 4096
END_SECONDS = 50.0
"""A little longer than a heartbeat may stay unanswered."""
KEEP_ALIVE_SECONDS = 60.0
"""Kubelets end streams on which nothing was said for long (4 hours, unless they are told otherwise)."""
NO_REQUEST = 0
_log = logging.getLogger(__name__)


class StreamEnd(StrEnum):
    """How a stream ended."""

    HUNG_UP = "hung_up"
    """The host ended it."""
    PROGRAM = "program"
    """The keeper's program did, or said what it never says. Its node told so: it, and all between it and here, works.
    An agent shares the program's pod, so this is no evidence against anybody else."""
    CUT = "cut"
    """No word of the program's end came: something between the host and the pod broke, or the host was too busy."""


@dataclass
class _Request:
    """What is open of one request: the reply's socket and the pipes for its output."""

    reply: socket.socket
    outputs: dict[bytes, asyncio.StreamWriter] = field(default_factory=dict)


class PodStream:
    """A stream to a keeper; `open` starts it, `close` ends it, and the work container with it.

    Attributes:
        channel: Requests to the pod.
        end: How it ended; ``None`` while it lasts.
        said: What the cluster said then.
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
        self._errors = bytearray()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.end: StreamEnd | None = None
        self.said = ""
        self._tasks = [asyncio.create_task(each()) for each in (self._receive, self._serve, self._keep_alive)]
        # Not by the task itself, which a stream that ends at once never lets begin.
        self._tasks[1].add_done_callback(self._serve_no_more)

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
            said = stream.said or "it did not say that it is ready"
            await stream.close()
            raise SandboxError(
                f"the keeper of a pod cannot reach the work container: {said}",
                "see that the image has the Python that sandbox.kubernetes.python names, 3.10 or later",
            ) from error
        except BaseException:
            await stream.close()
            raise
        return stream

    async def how_it_ended(self) -> StreamEnd | None:
        """How it ended; ``None`` where it has not, and what ended is on the pod's side of it."""
        if self._tasks[1].done():  # Nothing can be sent any more: whoever waits for an answer soon hears why.
            await asyncio.wait({self._tasks[0]}, timeout=END_SECONDS)
        return self.end

    async def close(self) -> None:
        """Hang up."""
        self._end(StreamEnd.HUNG_UP, "it was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
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
        try:
            while (request := await self._next()) is not None:
                await self._start(*request)
            await self._hang_up()
        except (aiohttp.ClientError, OSError) as error:
            _log.debug("nothing more can be sent to a pod: %s", error)  # `_receive` hears how the stream ends

    async def _next(self) -> tuple[bytes, list[int]] | None:
        """The next request and its descriptors; ``None`` when whoever held the control socket has let go of it."""
        loop = asyncio.get_running_loop()
        await first_readable(self._control)
        try:
            head, descriptors, _, _ = socket.recv_fds(self._control, 4, 4)
            if len(head) < 4:
                return None
            body = bytearray()
            while len(body) < struct.unpack("!I", head)[0]:
                piece = await loop.sock_recv(self._control, struct.unpack("!I", head)[0] - len(body))
                if not piece:
                    return None
                body += piece
        except OSError:
            return None
        return bytes(body), descriptors

    def _serve_no_more(self, _: asyncio.Task[None]) -> None:
        self._control.close()
        if self.end is not None:
            self._drop_requests()  # whatever came in after the end

    async def _keep_alive(self) -> None:
        """Say something now and then, however long the agent is silent."""
        with contextlib.suppress(aiohttp.ClientError, OSError):
            while True:
                await asyncio.sleep(KEEP_ALIVE_SECONDS)
                await self._say(NO_REQUEST, b"K")

    async def _hang_up(self) -> None:
        """End the stream, for whoever held the control socket has let go of it: the work container ends with that."""
        self.end, self.said = StreamEnd.HUNG_UP, "the host hung up"
        await self._socket.close()
        self._end(self.end, self.said)

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
        end, said = StreamEnd.CUT, "the stream broke off"
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, data = message.data[0], message.data[1:]
                if channel == STDOUT:
                    self._buffer += data
                    await self._frames()
                elif channel == STDERR:
                    self._errors += data[: ERROR_BYTES - len(self._errors)]
                elif channel == ERROR:
                    end, said = _status(data)
        except _BadFrame as error:
            end, said = StreamEnd.PROGRAM, str(error)
        except (aiohttp.ClientError, OSError) as error:
            said = str(error)
        finally:
            errors = " ".join(self._errors.decode(errors="replace").split()[-40:])
            self._end(end, ": ".join(text for text in (said, errors) if text))

    async def _frames(self) -> None:
        while len(self._buffer) >= FRAME.size:
            number, letter, length = FRAME.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise _BadFrame("the keeper sent a frame that is too large")
            if len(self._buffer) < FRAME.size + length:
                return
            body = bytes(self._buffer[FRAME.size : FRAME.size + length])
            del self._buffer[: FRAME.size + length]
            if number == NO_REQUEST:
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

    def _end(self, end: StreamEnd, said: str) -> None:
        """Nothing more will come: whoever waits hears of it."""
        if self.end is None:
            self.end, self.said = end, said
        if not self._ready.done():
            self._ready.set_exception(SandboxDied(self.said))
            self._ready.exception()
        self._drop_requests()
        for task in self._tasks[1:]:
            task.cancel()

    def _drop_requests(self) -> None:
        for request in self._requests.values():
            request.reply.close()
            for output in request.outputs.values():
                output.close()
        self._requests.clear()


class _BadFrame(Exception):
    """What no keeper says."""


def _status(data: bytes) -> tuple[StreamEnd, str]:
    """What the cluster says about the end of a program, in a ``Status`` object.

    Only of a program that has ended is it certain; any other failure is one of the node's.
    """
    try:
        status = read_json(data)
        ended = status.get("status") == "Success" or status.get("reason") == PROGRAM_ENDED
        said = str(status.get("message") or "the keeper's program ended")
    except (ValueError, AttributeError):
        return StreamEnd.CUT, "the stream ended"
    return (StreamEnd.PROGRAM if ended else StreamEnd.CUT), said


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    """A pipe's writing end as a stream."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
