"""What a session's listener answers: every dialect, and little else, below the session's secret.

Invariant: a wrong secret and a wrong path get the same bare answer.
"""

import secrets

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Counting, Dialect
from lego_rl.gateway.respond import Responder
from lego_rl.gateway.session import Session
from lego_rl.messages import Json


def application(session: Session[object], responder: Responder, model: str, largest: int) -> web.Application:
    """The routes of one session.

    Args:
        session: Whose they are.
        responder: Answers its requests.
        model: Name that ``/v1/models`` lists.
        largest: Bytes of the largest body.
    """
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


def _own_session(session: Session[object]) -> Middleware:
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
