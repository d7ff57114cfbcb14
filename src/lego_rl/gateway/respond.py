"""One HTTP request from its body to its last byte, the same for every dialect.

Invariant: a call counts as written only after the last byte of its response went out without an error.
"""

import asyncio
import uuid

from aiohttp import web

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import CaptureError, TemplateError
from lego_rl.gateway.body import BodyReader
from lego_rl.gateway.dialects.base import Answer, Asked, BadRequest, Counting, Dialect, Problem
from lego_rl.gateway.exchange import Exchange
from lego_rl.gateway.refusals import BodyStalled, BudgetSpent, ContextOverflow, InternalFault, PromptRefused
from lego_rl.gateway.session import Session
from lego_rl.gateway.threads import LARGE_CHARACTERS, REQUESTS
from lego_rl.json_text import BODY_DEPTH
from lego_rl.threads import in_thread

_HEAD_START_SECONDS = 0.05
"""How long a stream's headers wait after the request was admitted: a failure of the engine that is there by then gets a
status of its own."""

_OPEN = 32
"""Completions of a session that are answered at once: a harness with many sub-agents has about ten."""
_INTAKE = 2
"""Requests of a session that are read and rendered at once: it bounds what their bodies take of the host's memory."""

_LARGE_BODY = 2**20
"""Bytes of a body from which on even looking up what is known of it is worth a thread."""

_FAILED = (EngineError, CaptureError, InternalFault, ContextOverflow, PromptRefused)
_UNANSWERED = (
    *_FAILED, BadRequest, BodyStalled, BudgetSpent, TemplateError, web.HTTPRequestEntityTooLarge,
)  # fmt: skip


class Responder:
    """Answers the requests of one session, no more of them at a time than a harness has use for; others wait.

    Args:
        session: Whose they are.
        ping_seconds: Between two signs of life on a stream that waits for the engine.
        body_seconds: How long a body may take to arrive.
        largest: Bytes of the largest body.
    """

    def __init__(self, session: Session[object], *, ping_seconds: float, body_seconds: float, largest: int) -> None:
        self._session = session
        self._ping_seconds = ping_seconds
        self._body_seconds = body_seconds
        self._reader = BodyReader(depth=BODY_DEPTH, most=largest)
        self._open = asyncio.Semaphore(_OPEN)
        self._intake = asyncio.Semaphore(_INTAKE)
        self._reading = asyncio.Lock()  # what is remembered of bodies is for one thread at a time

    async def complete(self, http: web.Request, dialect: Dialect) -> web.StreamResponse:
        """Answer a request for a completion."""
        self._session.start_clock()
        async with self._open:
            try:
                async with self._intake:
                    asked = await self._read(http, dialect)
                    exchange = await self._session.admit(asked.request)
                work = exchange.answer()
                try:
                    return await self._respond(http, dialect, asked, exchange, work)
                finally:
                    work.cancel()
            except _UNANSWERED as error:
                return _failed(dialect, error)

    async def count(self, http: web.Request, dialect: Dialect, counting: Counting) -> web.StreamResponse:
        """Answer a request for the number of prompt tokens."""
        self._session.start_clock()
        async with self._intake:
            try:
                asked = await self._read(http, dialect)
                tokens = await self._session.count(asked.request)
                return web.json_response({**counting.constant, counting.key: tokens})
            except _UNANSWERED as error:
                return _failed(dialect, error)

    async def _read(self, http: web.Request, dialect: Dialect) -> Asked:
        content = await self._content(http)
        async with self._reading:
            return await self._parse(content, http, dialect)

    async def _content(self, http: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._body_seconds):
                return await http.read()
        except TimeoutError as error:
            raise BodyStalled(self._body_seconds) from error

    async def _parse(self, content: bytes, http: web.Request, dialect: Dialect) -> Asked:
        large = len(content) >= _LARGE_BODY
        parts = await in_thread(lambda: self._reader.split(content), REQUESTS) if large else self._reader.split(content)

        def read() -> Asked:
            try:
                body = self._reader.read(content, parts)
            except ValueError as error:
                raise BadRequest("body", f"no JSON that can be read ({error})") from error
            return dialect.read(body, http.headers)

        unread = len(content) if parts is None else parts.unread
        return read() if unread < LARGE_CHARACTERS and not large else await in_thread(read, REQUESTS)

    async def _respond(
        self, http: web.Request, dialect: Dialect, asked: Asked, exchange: Exchange, work: "asyncio.Task[Answer]"
    ) -> web.StreamResponse:
        if asked.stream:
            await asyncio.wait({work}, timeout=_HEAD_START_SECONDS)
            if work.done():
                work.result()  # a failure that is there at once gets its own status
            return await self._stream(http, dialect, asked, exchange, work)
        response = web.json_response(dialect.reply(asked, await work, uuid.uuid4().hex))
        await response.prepare(http)
        await response.write_eof()
        exchange.written()
        return response

    async def _stream(
        self, http: web.Request, dialect: Dialect, asked: Asked, exchange: Exchange, work: "asyncio.Future[Answer]"
    ) -> web.StreamResponse:
        reply_id = uuid.uuid4().hex
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(http)
        await response.write(dialect.opening(asked, exchange.prompt_tokens, reply_id))
        while not work.done():
            await asyncio.wait({work}, timeout=self._ping_seconds)
            if not work.done():
                await response.write(dialect.ping())
        try:
            answer = work.result()
        except _FAILED as error:
            await response.write(dialect.failure_event(asked, _problem(error), error, reply_id))
            await response.write_eof()
            return response
        await response.write(b"".join(dialect.events(asked, answer, reply_id)))
        await response.write_eof()
        exchange.written()
        return response


def _problem(error: Exception) -> Problem:
    match error:
        case BadRequest() | BudgetSpent() | TemplateError() | PromptRefused():
            return "bad_request"
        case web.HTTPRequestEntityTooLarge():
            return "too_large"
        case BodyStalled():
            return "stalled"
        case ContextOverflow():
            return "context"
        case EngineError():
            return "overloaded"
        case _:
            return "internal"


def _failed(dialect: Dialect, error: Exception) -> web.Response:
    failure = dialect.failure(_problem(error), error)
    return web.json_response(failure.body, status=failure.status, headers=failure.headers)
