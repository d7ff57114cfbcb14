"""Who took a pod away: an end of its stream says nothing without a word of the cluster's, or its silence."""

import asyncio
import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from kube_server import Server, kubeconfig

from lego_rl.sandbox.kubernetes import api as api_module
from lego_rl.sandbox.kubernetes import silence, taken_away
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.silence import is_silent
from lego_rl.sandbox.kubernetes.stream import StreamEnd
from lego_rl.sandbox.kubernetes.taken_away import loss_of
from lego_rl.sandbox.loss import LossCause

LEASE = {"metadata": {"name": "run", "uid": "1"}}
RUNNING = {"name": "work", "ready": True, "state": {"running": {}}}
ENDED = {"name": "work", "ready": False, "state": {"terminated": {"exitCode": 0}}}
UNREADY = {"type": "Ready", "status": "False"}


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


class Told:
    """What the cluster says of pods, from one list after the other."""

    def __init__(self, run: Run, script: Server) -> None:
        self.run = run
        self.script = script

    async def __call__(self, **status: Any) -> None:
        """Have it say something of the pod, and wait until that is known."""
        marked = {"phase": "Running", "containerStatuses": [RUNNING], **status}
        pod = {"metadata": {"name": "pod"}, "status": marked}
        self.script.script = [(200, {"metadata": {"resourceVersion": "1"}, "items": [pod]}, {})]
        await self.run.pods.wait("pod", lambda pod: True if pod is not None and pod["status"] == marked else None)


@pytest.fixture
def told(run: Run, server: tuple[Server, TestServer], monkeypatch: pytest.MonkeyPatch) -> Told:
    async def nothing_happens(*_: object) -> AsyncIterator[tuple[str, Any]]:
        await asyncio.sleep(0.05)
        for event in ():
            yield event

    monkeypatch.setattr(Api, "watch", nothing_happens)
    return Told(run, server[0])


@pytest.mark.parametrize("end", [StreamEnd.PROGRAM, StreamEnd.CUT])
async def test_an_end_alone_is_no_evidence(run: Run, told: Told, end: StreamEnd) -> None:
    await told()
    assert await loss_of(run, "pod", end) is None
    await told(containerStatuses=[ENDED])
    assert await loss_of(run, "pod", end) is None


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"conditions": [UNREADY]}, LossCause.RUNTIME),
        ({"reason": "Preempting"}, LossCause.KILLED),
        ({"reason": "Evicted", "message": "The node was low on resource: memory. "}, LossCause.KILLED),
        ({"reason": "Evicted", "message": "The node was low on resource: pids. "}, None),
        ({"reason": "Evicted", "message": 'Usage of EmptyDir volume "tree" exceeds the limit "1Mi". '}, None),
    ],
)
@pytest.mark.parametrize("end", [StreamEnd.PROGRAM, StreamEnd.CUT])
async def test_a_word_of_the_clusters_is_evidence(
    run: Run, told: Told, status: dict[str, Any], cause: LossCause | None, end: StreamEnd
) -> None:
    await told(**status)
    loss = await loss_of(run, "pod", end)
    assert (loss.cause if loss is not None else None) is cause


async def test_a_pod_that_is_gone_was_taken_away(run: Run, told: Told) -> None:
    await told()
    told.script.script = [(200, {"metadata": {"resourceVersion": "2"}, "items": []}, {})]
    await run.pods.wait("pod", lambda pod: True if pod is None else None)
    loss = await loss_of(run, "pod", StreamEnd.PROGRAM)
    assert loss is not None and loss.cause is LossCause.KILLED


async def test_silence_is_evidence_where_the_stream_was_cut(
    run: Run, told: Told, server: tuple[Server, TestServer]
) -> None:
    await told()
    await server[1].close()
    assert await loss_of(run, "pod", StreamEnd.PROGRAM) is None
    loss = await loss_of(run, "pod", StreamEnd.CUT)
    assert loss is not None and loss.cause is LossCause.RUNTIME and "does not answer" in loss.found


@pytest.mark.parametrize(("status", "silent"), [(200, False), (403, False), (503, True), (0, True)])
async def test_what_an_api_server_says_is_no_silence(
    run: Run, server: tuple[Server, TestServer], status: int, silent: bool
) -> None:
    await run.pods.close()
    server[0].script = [(status, {}, {})]
    assert await is_silent(run.api) is silent


async def test_one_answer_ends_the_silence(run: Run, server: tuple[Server, TestServer]) -> None:
    await run.pods.close()
    server[0].script = [(503, {}, {}), (503, {}, {}), (200, {}, {})]
    assert not await is_silent(run.api)


@pytest.mark.parametrize("busy", [False, True])
async def test_a_process_that_was_busy_hears_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    monkeypatch.setattr(silence, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(silence, "ATTEMPT_SECONDS", 1.0)
    monkeypatch.setattr(silence, "LONGEST_NAP_SECONDS", 0.8)
    connected = []
    hanging = await asyncio.start_server(lambda *ends: connected.append(ends), "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    async with await Api.connect(kubeconfig(tmp_path, f"http://127.0.0.1:{port}")) as api:
        if busy:  # the event loop is held, as work that agents make can do
            asyncio.get_running_loop().call_later(0.3, time.sleep, 1.2)
        assert await is_silent(api) is not busy
    for _, writer in connected:
        writer.close()
    hanging.close()


@pytest.mark.parametrize(("number", "silent"), [(errno.EMFILE, False), (errno.ECONNREFUSED, True)])
async def test_what_this_process_lacks_is_no_silence(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, silent: bool
) -> None:
    async def fails(_: Api) -> bool:
        raise OSError(number, "as the kernel says")

    monkeypatch.setattr(Api, "answers", fails)
    assert await is_silent(run.api) is silent
