"""A run on an API server that answers from a script."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from kube_server import Server, Told, kubeconfig

from lego_rl.sandbox.kubernetes import api as api_module
from lego_rl.sandbox.kubernetes import silence, taken_away
from lego_rl.sandbox.kubernetes.answers import Event, Lease, Metadata
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.run import Run

LEASE = Lease(Metadata("run", "1"))


@pytest_asyncio.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Server, TestServer]]:
    monkeypatch.setattr(api_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.pods.RETRY_SECONDS", 0.05)
    monkeypatch.setattr(silence, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(taken_away, "STATUS_SECONDS", 0.3)
    monkeypatch.setattr(taken_away, "NODE_SECONDS", 0.6)
    script = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.answer)
    async with TestServer(application) as running:
        yield script, running


@pytest_asyncio.fixture
async def run(server: tuple[Server, TestServer], tmp_path: Path) -> AsyncIterator[Run]:
    settings = kubeconfig(tmp_path, str(server[1].make_url("")))
    async with await Api.connect(settings) as api:
        found = Run(api, settings, LEASE, user_namespaces=False)
        try:
            yield found
        finally:
            await found.pods.close()


@pytest.fixture
def told(run: Run, server: tuple[Server, TestServer], monkeypatch: pytest.MonkeyPatch) -> Told:
    async def nothing_happens(*_: object) -> AsyncIterator[Event]:
        await asyncio.sleep(0.05)
        for event in ():
            yield event

    monkeypatch.setattr(Api, "watch", nothing_happens)
    return Told(run, server[0])
