"""Who took a pod away: an end of its stream says nothing without a word of the cluster's, or its silence."""

import asyncio
import errno
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from kube_server import Server, Told, kubeconfig

from lego_rl.sandbox.kubernetes import silence
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.manifests import WORK
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.silence import is_silent
from lego_rl.sandbox.kubernetes.stream import StreamEnd
from lego_rl.sandbox.kubernetes.taken_away import loss_of
from lego_rl.sandbox.loss import LossCause

ENDED = {"name": "work", "ready": False, "state": {"terminated": {"exitCode": 0}}}
UNREADY = {"type": "Ready", "status": "False"}


@pytest.mark.parametrize("end", [StreamEnd.PROGRAM, StreamEnd.CUT])
async def test_an_end_alone_is_no_evidence(run: Run, told: Told, end: StreamEnd) -> None:
    await told()
    assert await loss_of(run, "pod", WORK, end) is None
    await told(containerStatuses=[ENDED])
    assert await loss_of(run, "pod", WORK, end) is None


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
    loss = await loss_of(run, "pod", WORK, end)
    assert (loss.cause if loss is not None else None) is cause


async def test_a_pod_that_is_gone_was_taken_away(run: Run, told: Told) -> None:
    await told()
    told.script.script = [(200, {"metadata": {"resourceVersion": "2"}, "items": []}, {})]
    await run.pods.wait("pod", lambda pod: True if pod is None else None)
    loss = await loss_of(run, "pod", WORK, StreamEnd.PROGRAM)
    assert loss is not None and loss.cause is LossCause.KILLED


async def test_silence_is_evidence_where_the_stream_was_cut(
    run: Run, told: Told, server: tuple[Server, TestServer]
) -> None:
    await told()
    await server[1].close()
    assert await loss_of(run, "pod", WORK, StreamEnd.PROGRAM) is None
    loss = await loss_of(run, "pod", WORK, StreamEnd.CUT)
    assert loss is not None and loss.cause is LossCause.RUNTIME and "does not answer" in loss.found


@pytest.mark.parametrize("status", [{"containerStatuses": [ENDED]}, {"phase": "Failed", "reason": "Evicted"}])
async def test_silence_takes_nothing_that_had_ended_before(
    run: Run, told: Told, server: tuple[Server, TestServer], status: dict[str, Any]
) -> None:
    await told(**status)
    await server[1].close()
    assert await loss_of(run, "pod", WORK, StreamEnd.CUT) is None


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "Usage of EmptyDir volume"}, None),
        ({"phase": "Failed", "containerStatuses": [ENDED]}, None),
        ({"phase": "Failed", "reason": "NodeShutdown"}, LossCause.KILLED),
        ({"phase": "Running"}, LossCause.KILLED),
    ],
)
@pytest.mark.parametrize("marked_first", [False, True])
async def test_whoever_tidies_a_pod_away_that_an_agent_made_end_took_nothing(
    run: Run, told: Told, ended: dict[str, Any], cause: LossCause | None, marked_first: bool
) -> None:
    await told(**ended)
    if marked_first:  # for deletion
        pod = {"metadata": {"name": "pod", "deletionTimestamp": "now"}, "status": ended}
        told.script.script = [(200, {"metadata": {"resourceVersion": "2"}, "items": [pod]}, {})]
        await told.settled()
    told.script.script = [(200, {"metadata": {"resourceVersion": "3"}, "items": []}, {})]
    await told.settled()
    for end in (StreamEnd.PROGRAM, StreamEnd.CUT):
        loss = await loss_of(run, "pod", WORK, end)
        assert (loss.cause if loss is not None else None) is cause


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
