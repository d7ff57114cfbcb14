"""A server that speaks vLLM's HTTP and samples by rule: for routing, retries, aborts and weights without vLLM."""

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import web

TOKENS = (11, 12, 13)


@dataclass
class FakeVllm:
    """What it was asked, and how it is to answer.

    Attributes:
        platform: ``cuda`` returns routes itself, ``cpu`` when it is asked for them.
        loaded: Digest of what it takes over.
        failures: Answers of this status come first, one a call.
        hangs: Calls are never answered.
        answer: Replaces parts of an answer's choice.
    """

    platform: str = "cuda"
    routed: bool = True
    digest: str = "d0"
    loaded: str = "d1"
    version: str = "unnamed"
    failures: list[int] = field(default_factory=list)
    hangs: bool = False
    answer: dict[str, Any] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    steps: int = 0
    unfinished: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve until the end of the block; gives the URL."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        try:
            yield f"http://{host}:{port}/"
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        if path == "health":
            return web.Response()
        if path == "metrics":
            self.steps += self.unfinished > 0
            text = f'vllm:iteration_tokens_total_count{{engine="0"}} {self.steps}.0\n'
            return web.Response(text=text + f'vllm:num_requests_running{{engine="0"}} {self.unfinished}.0\n')
        if path == "v1/models":
            return web.json_response({"data": [{"id": "policy", "max_model_len": 100}]})
        body = await request.json()
        if path == "collective_rpc":
            return web.json_response({"results": [self._rpc(body["method"], body["args"])]})
        if path == "inference/v1/generate":
            return await self._generate(body)
        self.events.append(path + "".join(f" {key}={value}" for key, value in request.query.items()))
        if path == "update_weight_version":
            self.version = body["new_version"]
        if path == "abort_requests":
            self.events.append(str(body["request_ids"]))
            self.aborted.set()
        return web.json_response({"success": True})

    def _rpc(self, method: str, arguments: list[str]) -> dict[str, Any]:
        if method == "lego_serves":
            return {"platform": self.platform, "dtype": "float32", "routed": self.routed, "digest": self.digest}
        if method == "lego_load":
            self.events.append("load")
            return {"digest": self.loaded}
        assert method == "lego_routes"
        return {"npy": npy(len(self.bodies[-1]["token_ids"]) + len(TOKENS) - 1 - int(arguments[1]))}

    async def _generate(self, body: dict[str, Any]) -> web.Response:
        self.bodies.append(body)
        self.asked.set()
        if self.failures:
            return web.json_response({"error": "it broke"}, status=self.failures.pop())
        if self.hangs:
            await asyncio.Event().wait()
        rows = len(body["token_ids"]) + len(TOKENS) - 1 - body["sampling_params"]["routed_experts_prompt_start"]
        choice = {
            "token_ids": list(TOKENS),
            "finish_reason": "stop",
            "logprobs": {"content": [{"token_id": each, "logprob": -each / 10} for each in TOKENS]},
            "weight_versions": [{"version": self.version, "start": 0, "end": len(TOKENS)}],
            "routed_experts": npy(rows) if self.platform == "cuda" and self.routed else None,
        }
        return web.json_response({"choices": [choice | self.answer]})


def npy(rows: int, dtype: str = "uint16") -> str:
    """Routes ``[rows, 2, 2]`` as the server writes them."""
    buffer = io.BytesIO()
    np.save(buffer, np.arange(rows * 4).reshape(rows, 2, 2).astype(dtype) % 8)
    return base64.b64encode(buffer.getvalue()).decode()
