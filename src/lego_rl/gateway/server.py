"""The gateway's HTTP side: one listener a trial, every dialect below one unguessable path.

Invariant: a listener answers for its own session and for nothing else, so a sandbox cannot reach another trial even
with its secret, nor take more than its share of the host's connections. A stream gets its headers within 50 ms of being
admitted (`respond`: 32 requests of a session are, at once) and a ping every few seconds; a client that is gone aborts
its call.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from lego_rl.engine.chat_protocol import ChatBackend
from lego_rl.engine.protocol import Engine, EngineError
from lego_rl.gateway.answers import Policy
from lego_rl.gateway.application import application
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.chat_answers import ChatPolicy
from lego_rl.gateway.connections import CONNECTIONS, BoundedListener
from lego_rl.gateway.engine_answers import EnginePolicy
from lego_rl.gateway.http_log import HTTP_LOG
from lego_rl.gateway.respond import Responder
from lego_rl.gateway.session import Session
from lego_rl.gateway.settings import DEFAULT_CAPTURE, CaptureSettings
from lego_rl.gateway.spool import TEMPORARY
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import ToolCallParser
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.gateway.transcript import Captured, Transcript

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


class HttpGateway[C]:
    """Opens sessions and serves them, whatever answers their calls.

    Args:
        policy: Answers the calls.
        model: Model name that ``/v1/models`` lists; requests may name any.
        ping_seconds: Between two signs of life on a stream that waits for an answer.
        body_seconds: How long a request body may take to arrive: it comes from the same machine.
        connections: Most open connections of one listener; further ones wait.
    """

    def __init__(
        self,
        policy: Policy[C],
        *,
        model: str = "policy",
        ping_seconds: float = 3.0,
        body_seconds: float = 30.0,
        connections: int = CONNECTIONS,
    ) -> None:
        self._policy = policy
        self._model = model
        self._ping_seconds = ping_seconds
        self._body_seconds = body_seconds
        self._connections = connections

    def open(
        self, budget: Budget, *, temperature: float, seed: int | None = None, log: Path | None = None
    ) -> Session[C]:
        """Start a session; its address is `Session.path`.

        Args:
            budget: What the trial may spend.
            temperature: Of every call, whatever the harness asks for.
            seed: Makes the session's sampling reproducible.
            log: File for the calls as they are answered (`call_log`); its folder has to exist when the first one is.
        """
        return Session(self._policy.answers(budget, temperature=temperature, seed=seed), budget=budget, log=log)

    async def serve(self, sock: socket.socket, session: Session[object]) -> Listener:
        """Answer for `session` on a bound socket, which may live in another network namespace."""
        largest = min(_BODY_BASE + _BODY_PER_TOKEN * session.budget.context_tokens, _BODY_MOST)
        responder = Responder(
            session, ping_seconds=self._ping_seconds, body_seconds=self._body_seconds, largest=largest
        )
        app = application(session, responder, self._model, largest)
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
        sign = asyncio.ensure_future(self._policy.progressed())
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

    async def close[S](self, session: Session[S]) -> S:
        """End a session and return what was captured; once, for the session does not hold it any longer.

        Raises:
            CaptureError: A call contradicted itself; nothing of the trial can be trusted.
        """
        try:
            captured = session.close()
        finally:
            session.drop_routes()
        await asyncio.sleep(0)  # let the aborted calls end before the engine is asked for anything else
        return captured


class Gateway(HttpGateway[Trajectory]):
    """The gateway of an engine: what was sampled is captured token by token.

    Args:
        engine: Samples from the policy.
        template: The policy's chat template.
        parser: Of the policy's tool-call format.
        model: As for `HttpGateway`, and so the three after it.
        ping_seconds: See there.
        body_seconds: See there.
        connections: See there.
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
        super().__init__(
            EnginePolicy(engine, template, parser, capture=capture, spool=spool),
            model=model,
            ping_seconds=ping_seconds,
            body_seconds=body_seconds,
            connections=connections,
        )


class ChatGateway(HttpGateway[Transcript]):
    """The gateway of a chat backend: messages are written down, and there is nothing to train on.

    Args:
        backend: Answers conversations.
        ping_seconds: As for `HttpGateway`.
        connections: See there.
    """

    def __init__(self, backend: ChatBackend, *, ping_seconds: float = 3.0, connections: int = CONNECTIONS) -> None:
        super().__init__(ChatPolicy(backend), ping_seconds=ping_seconds, connections=connections)


type AnyGateway = HttpGateway[Captured]
"""Of whatever answers."""
