"""The gateway's HTTP side: one listener a trial, every dialect below one unguessable path.

Invariant: a listener answers for its own session and for nothing else, so a sandbox cannot reach another trial even
with its secret, nor take more than its share of the host's connections. A stream gets its headers within 50 ms of being
admitted (`respond`: 32 requests of a session are, at once) and a ping every few seconds; a client that is gone aborts
its call.
"""

import asyncio
import logging
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from lego_rl.engine.protocol import Engine, EngineError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.connections import CONNECTIONS, BoundedListener
from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Counting, Dialect
from lego_rl.gateway.http_log import HTTP_LOG
from lego_rl.gateway.respond import Responder
from lego_rl.gateway.session import Session
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import ToolCallParser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.messages import Json

_LOG = logging.getLogger(__name__)

_PIECES = 20
"""Of the time in which an engine has to show a sign of life."""

_BODY_BASE, _BODY_PER_TOKEN, _BODY_MOST = 4 * 2**20, 64, 64 * 2**20
"""Bytes of a request body: for what never becomes a token (images, markup), for each token of context, and at most."""


@dataclass(frozen=True)
class Listener:
    """A socket that answers for one session until it is closed."""

    _bounded: BoundedListener = field(repr=False)
    _runner: web.AppRunner = field(repr=False)

    @property
    def lost(self) -> OSError | None:
        """Why the socket answers nobody any more; ``None`` as long as it does. No client can bring that about."""
        return self._bounded.lost

    async def close(self) -> None:
        """Stop listening and drop the open connections."""
        await self._bounded.close()
        await self._runner.cleanup()


class Gateway:
    """Opens sessions and serves them.

    Args:
        engine: Samples from the policy.
        template: The policy's chat template.
        parser: Of the policy's tool-call format.
        model: Model name that ``/v1/models`` lists; requests may name any.
        ping_seconds: Between two signs of life on a stream that waits for the engine.
        body_seconds: How long a request body may take to arrive: it comes from the same machine.
        connections: Most open connections of one listener; further ones wait.
        capture: What stays in the policy's context, and which calls train.
        spool: Folder on a disk, for what is captured and not needed before a session ends.
    """

    def __init__(
        self,
        engine: Engine,
        template: ChatTemplate,
        parser: ToolCallParser,
        *,
        model: str = "policy",
        ping_seconds: float = 3.0,
        body_seconds: float = 30.0,
        connections: int = CONNECTIONS,
        capture: CaptureSettings = DEFAULT_CAPTURE,
        spool: Path = TEMPORARY,
    ) -> None:
        self._engine = engine
        self._template = template
        self._parser = parser
        self._model = model
        self._ping_seconds = ping_seconds
        self._body_seconds = body_seconds
        self._connections = connections
        self._capture = capture
        self._spool = spool

    def open(self, budget: Budget, *, temperature: float, seed: int | None = None, log: Path | None = None) -> Session:
        """Start a session; its address is `Session.path`.

        Args:
            budget: What the trial may spend.
            temperature: Of every call, whatever the harness asks for.
            seed: Makes the session's sampling reproducible.
            log: File for the calls as they are answered (`call_log`); its folder has to exist when the first one is.
        """
        return Session(
            self._engine,
            self._template,
            self._parser,
            budget=budget,
            temperature=temperature,
            seed=seed,
            capture=self._capture,
            spool=self._spool,
            log=log,
        )

    async def serve(self, sock: socket.socket, session: Session) -> Listener:
        """Answer for `session` on a bound socket, which may live in another network namespace."""
        largest = min(_BODY_BASE + _BODY_PER_TOKEN * session.budget.context_tokens, _BODY_MOST)
        responder = Responder(
            session, ping_seconds=self._ping_seconds, body_seconds=self._body_seconds, largest=largest
        )
        app = _application(session, responder, self._model, largest)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=HTTP_LOG,
            handler_cancellation=True,
            shutdown_timeout=1.0,
            # No harness compresses a body, and a few kilobytes would have this process unpack gigabytes.
            auto_decompress=False,
        )

        async def hang_up_when_crowded(_: web.Request, response: web.StreamResponse) -> None:
            if bounded.is_crowded:
                response.force_close()
                response.headers["Connection"] = "close"

        app.on_response_prepare.append(hang_up_when_crowded)
        await runner.setup()
        assert runner.server is not None, "it was set up"
        bounded = BoundedListener(sock, runner.server, self._connections)
        return Listener(bounded, runner)

    async def engine_hangs(self, within_sec: float) -> bool:
        """Whether the engine does nothing at all for anybody: what it means for an engine to be silent.

        It is not asked to sample: a call would wait behind those of all other sessions, which agents send.

        Args:
            within_sec: How long its next step may take.
        """
        sign = asyncio.ensure_future(self._engine.progressed())
        try:
            # In pieces: where this whole process stood still for so long, the engine's thread may have, too.
            for _ in range(_PIECES):
                await asyncio.wait({sign}, timeout=within_sec / _PIECES)
                if sign.done():
                    break
            else:
                return True
            await sign
        except EngineError:
            return True
        except Exception:  # noqa: BLE001  # no evidence that it is down: a bug, which the log shows
            _LOG.exception("the engine met what nobody foresaw when it was asked for a sign of life")
        finally:
            sign.cancel()
        return False

    async def close(self, session: Session) -> Trajectory:
        """End a session and return what was captured; once, for the session does not hold it any longer.

        Raises:
            CaptureError: A call contradicted itself; nothing of the trial can be trusted.
        """
        try:
            trajectory = session.close()
        finally:
            session.drop_routes()
        await asyncio.sleep(0)  # let the aborted calls end before the engine is asked for anything else
        return trajectory


def _application(session: Session, responder: Responder, model: str, largest: int) -> web.Application:
    app = web.Application(client_max_size=largest, middlewares=[_own_session(session)])
    base = "/s/{secret}"
    for dialect in DIALECTS:
        _add_dialect(app, base, dialect, responder)

    async def models(_: web.Request) -> web.Response:
        return web.json_response(_models(model))

    async def named(request: web.Request) -> web.Response:
        return web.json_response(_model(request.match_info["name"]))

    async def alive(_: web.Request) -> web.Response:
        return web.Response()

    app.router.add_get(f"{base}/v1/models", models)
    app.router.add_get(f"{base}/v1/models/{{name:.+}}", named)
    app.router.add_head(base, alive)
    app.router.add_head(base + "/{rest:.*}", alive)
    return app


def _add_dialect(app: web.Application, base: str, dialect: Dialect, responder: Responder) -> None:
    async def complete(request: web.Request) -> web.StreamResponse:
        return await responder.complete(request, dialect)

    app.router.add_post(base + dialect.completion_path, complete)
    if dialect.counting is not None:
        _add_counting(app, base, dialect, dialect.counting, responder)


def _add_counting(app: web.Application, base: str, dialect: Dialect, counting: Counting, responder: Responder) -> None:
    async def count(request: web.Request) -> web.StreamResponse:
        return await responder.count(request, dialect, counting)

    app.router.add_post(base + counting.path, count)


def _own_session(session: Session) -> Middleware:
    own = session.secret.encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # In constant time, and the same bare answer for a wrong secret as for a wrong path.
        parts = request.path.split("/", 3)
        given = parts[2] if len(parts) > 2 and parts[1] == "s" else ""
        if not secrets.compare_digest(given.encode("utf-8", "surrogatepass"), own) or isinstance(
            request.match_info.http_exception, Exception
        ):
            return web.Response(status=404)
        return await handler(request)

    return check


def _models(model: str) -> dict[str, Json]:
    """One listing that the clients of every dialect can read."""
    return {"object": "list", "data": [_model(model)], "has_more": False, "first_id": model, "last_id": model}


def _model(name: str) -> dict[str, Json]:
    """A model, of any name: whatever a request names, it is the policy that answers."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "owned_by": "lego-rl",
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
    }
