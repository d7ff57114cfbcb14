"""The connection between a harness and its gateway, and what goes wrong on it.

Invariant: bytes pass unaltered, but for the one fault that is due. Only requests for completions are counted.
"""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lego_rl.conformance.heard import Decode, tokens_heard
from lego_rl.engine.protocol import Sample
from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Dialect
from lego_rl.gateway.refusals import ContextOverflow

type Fault = Literal["cut", "lost", "too long"]
"""``cut``: the answer breaks off in the middle. ``lost``: nothing of it arrives. ``too long``: the request is refused
as one whose prompt does not fit, before the gateway sees it."""

type Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PIECE = 1024 * 1024
_REACHED = 0.6
"""Share of a response's body that is let through before it breaks off: in a stream its text, and not all of a call."""
_SETTLE_SECONDS = 0.3
"""After the engine answered, how long the gateway has to write its response."""
_REQUEST = re.compile(rb"POST ([^\s?]+)\S* HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass
class Wire:
    """Passes on what a harness sends to a gateway on the host, and back.

    Attributes:
        gateway: Name of the Unix socket on which the gateway answers.
        answered: The calls that the engine has answered, in that order.
        faults: Number of a request for a completion, from 1 on → what happens to it. No other request may be under way
            when an answer breaks off, or its calls count as broken off, too.
        mark: What is looked for in every request.
        requests: Requests for completions so far.
        broken_off: Call whose answer broke off → the bytes of the response that were let through.
        marked: Whether a request held the mark.
    """

    gateway: str
    answered: Callable[[], Sequence[str]]
    faults: Mapping[int, Fault] = field(default_factory=dict)
    mark: bytes | None = None
    requests: int = 0
    broken_off: dict[str, bytes] = field(default_factory=dict)
    marked: bool = False
    _links: "set[asyncio.Task[None]]" = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def laid(self, sock: socket.socket) -> AsyncIterator[None]:
        """Answer on a listening socket, which may live in another network namespace."""
        server = await asyncio.start_server(self._connected, sock=sock)
        try:
            yield
        finally:
            server.close()
            for link in self._links:
                link.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

    def arrived(self, samples: Sequence[Sample], decode: Decode) -> dict[str, Collection[int]]:
        """Of the calls whose answer broke off: how many of its tokens may count as delivered.

        All of them may, if any byte arrived: the gateway had written the answer to its end, and a harness that goes on
        without the calls in it looks to it like one that took them out.
        """
        tokens = {sample.call_id: sample.token_ids for sample in samples}
        return {
            call: {*range(tokens_heard(tokens[call], raw, decode) + 1), len(tokens[call])} if raw else {0}
            for call, raw in self.broken_off.items()
        }

    def due(self) -> Fault | None:
        """Count a request for a completion; what happens to it."""
        self.requests += 1
        return self.faults.get(self.requests)

    def look(self, seen: bytes) -> bytes:
        """Look for the mark in the next bytes of a request; what the ones after have to be looked at with."""
        if self.mark is None:
            return b""
        self.marked = self.marked or self.mark in seen
        return seen[-len(self.mark) :]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._link((reader, writer)))
        self._links.add(task)
        task.add_done_callback(self._links.discard)

    async def _link(self, harness: Stream) -> None:
        try:
            gateway = await asyncio.open_unix_connection(self.gateway)
            try:
                await _Link(self, harness, gateway).run()
            finally:
                gateway[1].transport.abort()
        except OSError:
            pass  # either side hung up, which is theirs to do
        finally:
            harness[1].transport.abort()


class _Link:
    """One connection."""

    def __init__(self, wire: Wire, harness: Stream, gateway: Stream) -> None:
        self._wire = wire
        self._harness = harness
        self._gateway = gateway
        self._fault: Fault | None = None
        self._answered_before = 0
        self._passed = b""
        """Of the response to the last request for a completion."""

    async def run(self) -> None:
        """Pass on until one side hangs up or a fault breaks the connection."""
        ways = {asyncio.create_task(self._up()), asyncio.create_task(self._down())}
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in done:
                way.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _up(self) -> None:
        reader, writer = self._harness[0], self._gateway[1]
        tail = b""
        while piece := await reader.read(_PIECE):
            tail = self._wire.look(tail + piece)
            dialect = _asked(piece)
            if dialect is not None:
                self._fault = self._wire.due()
                self._passed = b""
                self._answered_before = len(self._wire.answered())
                if self._fault == "too long":
                    await self._refuse(dialect, piece)
                    continue
            writer.write(piece)
            await writer.drain()

    async def _down(self) -> None:
        reader, writer = self._gateway[0], self._harness[1]
        while piece := await reader.read(_PIECE):
            answered = self._wire.answered()[self._answered_before :]
            if self._fault in ("cut", "lost") and answered:
                await asyncio.sleep(_SETTLE_SECONDS)
                if self._fault == "cut":
                    await self._pass_beginning(self._passed + piece + await _waiting(reader))
                self._wire.broken_off |= dict.fromkeys(answered, self._passed)
                return
            if self._fault != "lost":
                self._passed += piece
                writer.write(piece)
                await writer.drain()

    async def _pass_beginning(self, whole: bytes) -> None:
        """Let the beginning of a response through, and hang up without taking back what is on its way."""
        writer = self._harness[1]
        start = whole.index(b"\r\n\r\n") + 4
        end = start + int((len(whole) - start) * _REACHED)
        writer.write(whole[len(self._passed) : end])
        self._passed = whole[: max(end, len(self._passed))]
        writer.close()
        await writer.wait_closed()

    async def _refuse(self, dialect: Dialect, piece: bytes) -> None:
        """Read the request to its end and say that it is too long."""
        while b"\r\n\r\n" not in piece:
            piece += await self._harness[0].read(_PIECE)
        head, _, body = piece.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if length is not None:
            await self._harness[0].readexactly(int(length.group(1)) - len(body))
        else:
            await self._harness[0].readuntil(b"0\r\n\r\n")
        failure = dialect.failure("context", ContextOverflow(250_000, 200_000))
        content = json.dumps(failure.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **failure.headers}
        lines = [f"HTTP/1.1 {failure.status} Refused", *(f"{name}: {value}" for name, value in headers.items())]
        self._harness[1].write("\r\n".join([*lines, "", ""]).encode() + content)
        await self._harness[1].drain()


async def _waiting(reader: asyncio.StreamReader) -> bytes:
    """What can be read at once."""
    try:
        return await asyncio.wait_for(reader.read(_PIECE), 0.05)
    except TimeoutError:
        return b""


def _asked(piece: bytes) -> Dialect | None:
    """The dialect of the request for a completion that `piece` begins, if it begins one."""
    request = _REQUEST.match(piece)
    if request is None:
        return None
    path = request.group(1).decode("latin-1")
    return next((dialect for dialect in DIALECTS if path.endswith(dialect.completion_path)), None)
