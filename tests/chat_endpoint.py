"""A local endpoint that speaks Chat Completions: it says what a script says, and fails in the ways of real ones."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "sk-only-for-this-test-0123456789"
VARIABLE = "LEGO_TEST_ENDPOINT_KEY"
TOO_LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."

type Body = dict[str, Any]
type Answer = web.StreamResponse | dict[str, Any] | str
type Says = Callable[[Body], Answer]
"""What is answered to a body: a message, a text, or a whole response."""


@dataclass
class Endpoint:
    """What came in, and how it is answered.

    Attributes:
        says: Answers a body that is no probe.
        probe: Answers a probe, which is the only request of one message that says ``Say OK.``
        bodies: Of what came in, but for probes.
        keys: What came as a bearer token.
        gate: Answers wait for it.
        arrived: Counts up with every one of `bodies`.
        hung_up: Set when somebody hangs up who waits at the gate.
        models: What the list of models is; there is none if unset.
    """

    says: Says
    probe: Says = field(default=lambda body: "OK")
    bodies: list[Body] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    probes: int = 0
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    models: object = None

    async def listed(self, _: web.Request) -> web.StreamResponse:
        return failing(404) if self.models is None else web.json_response(self.models)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.keys.add(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if [message["content"] for message in body["messages"]] == ["Say OK."]:
            self.probes += 1
            return response(self.probe(body))
        self.bodies.append(body)
        self.arrived.release()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.hung_up.set()
            raise
        return response(self.says(body))


def response(answer: Answer) -> web.StreamResponse:
    if isinstance(answer, web.StreamResponse):
        return answer
    message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return web.json_response(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
        }
    )


def calling(name: str, *, call_id: str = "", **arguments: object) -> dict[str, Any]:
    """A message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def failing(status: int, message: str = "no", **headers: str) -> web.Response:
    """An error as endpoints send it."""
    return web.json_response({"error": {"message": message, "code": None}}, status=status, headers=headers)


def in_turn(*answers: Answer) -> Says:
    """One answer after the other, whoever asks."""
    left = list(answers)
    return lambda body: left.pop(0)


def by_turn(*answers: Answer) -> Says:
    """The answer of a turn, told by how many of the assistant's the conversation has; the last one for ever."""
    return lambda body: answers[
        min(sum(message["role"] == "assistant" for message in body["messages"]), len(answers) - 1)
    ]


@contextlib.asynccontextmanager
async def endpoint(says: Says, **changes: Any) -> AsyncIterator[Endpoint]:
    served = Endpoint(says, **changes)
    served.gate.set()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", served.complete)
    app.router.add_get("/v1/models", served.listed)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield served
    finally:
        await runner.cleanup()
