"""A pod, or the whole cluster, that goes between the end of an agent phase and the reading of what it left: who took
it away is told by the class of the error, and what the agent's files bring about is nobody's loss."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from kube_server import PODS, Server, Told

from lego_rl.errors import SandboxError
from lego_rl.sandbox import controlled
from lego_rl.sandbox.image import prepare_image
from lego_rl.sandbox.kubernetes import pod as pod_module
from lego_rl.sandbox.kubernetes.frames import FRAME
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.kubernetes.pod_image import PodImage
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.starting import open_stream
from lego_rl.sandbox.kubernetes.stream import STDOUT, StreamEnd
from lego_rl.sandbox.limits import DEFAULT_LIMITS
from lego_rl.sandbox.loss import RuntimeLostError, SandboxKilledError, SandboxLostError
from lego_rl.sandbox.state import State
from lego_rl.sandbox.verdict import Patch

KEEPER = {"name": "keeper", "ready": True, "state": {"running": {}}}
ALIVE = [{"name": "work", "ready": True, "state": {"running": {}}}, KEEPER]
DEAD = [{"name": "work", "ready": False, "state": {"terminated": {"exitCode": 0}}}, KEEPER]
SILENT = (503, {}, {})
GONE = (200, {"metadata": {"resourceVersion": "2"}, "items": []}, {})
BREAKS: tuple[str, ...] = ("list", "report")


class Keeper(Server):
    """An API server whose pods have a keeper.

    Attributes:
        breaks: What happens to the stream at an operation of `BREAKS`, if anything.
        streams: Connections of streams.
        severed: How often the host hung up on a first process.
    """

    def __init__(self) -> None:
        super().__init__()
        self.breaks: Callable[[], None] | None = None
        self.status = 0
        self.streams: list[web.Request] = []
        self.severed = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/exec") or self.script == [SILENT]:
            return await super().answer(request)
        self.streams.append(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(bytes([STDOUT]) + FRAME.pack(0, b"S", 1) + b"\0")
        asked: dict[int, str] = {}
        async for message in socket:
            number, letter, _ = FRAME.unpack_from(message.data, 1)
            if letter == b"R":
                asked[number] = message.data[1 + FRAME.size :].split(b"\0")[0].decode()
            if letter != b"E":
                continue
            self.severed += asked[number] == "sever"
            if self.breaks is not None and asked[number] in BREAKS:
                self.breaks()
                self.cut()
                break
            status = 1 << 8 if asked[number] == "get" else self.status  # there are no counts of the kernel here
            body = b"told" if asked[number] == "report" else b""
            for kind, each in ((b"O", body), (b"O", b""), (b"e", b""), (b"S", struct.pack("!i", status))):
                await socket.send_bytes(bytes([STDOUT]) + FRAME.pack(number, kind, len(each)) + each)
        return socket

    def cut(self) -> None:
        """End all streams, without a word."""
        for request in self.streams:
            if request.transport is not None:
                request.transport.abort()


@pytest_asyncio.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Keeper, TestServer]]:
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.api.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.pods.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.silence.PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.taken_away.STATUS_SECONDS", 0.3)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.taken_away.NODE_SECONDS", 0.6)
    monkeypatch.setattr(pod_module, "KILL_SECONDS", 1.0)
    monkeypatch.setattr(controlled, "ANSWER_SECONDS", 2.0)
    script = Keeper()
    script.script = [GONE]
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", script.answer)
    async with TestServer(application) as running:
        yield script, running


@pytest_asyncio.fixture
async def box(run: Run, told: Told, tmp_path: Path) -> AsyncIterator[PodSandbox]:
    """A sandbox in a pod that runs."""
    (tmp_path / "environment" / "repo").mkdir(parents=True)
    tree = await asyncio.to_thread(prepare_image, tmp_path / "environment", State(tmp_path / "state"), workdir="/app")
    image = PodImage(tree, run.settings, "image", "sha256:1", tree.pristine)
    await told(containerStatuses=ALIVE)
    made = PodSandbox(image, DEFAULT_LIMITS, run, "pod", await open_stream(run, "pod"), None, ())
    made._resources.push_async_callback(made._stream.close)
    try:
        yield made
    finally:
        with suppress(SandboxError):  # Many of these clusters never say that it is dead.
            await made.close()


async def killed(box: PodSandbox, told: Told) -> None:
    """Have the cluster say that the work container is dead."""
    await told(containerStatuses=DEAD)
    await box.kill()


async def cut_off(box: PodSandbox, keeper: Keeper) -> None:
    """End its stream, and wait until that is known."""
    keeper.cut()
    await asyncio.wait({box._stream._tasks[0]}, timeout=20)


def silence(keeper: Keeper) -> None:
    keeper.script = [SILENT]


async def test_what_a_dead_pod_holds_is_read(box: PodSandbox, told: Told, server: tuple[Keeper, TestServer]) -> None:
    await killed(box, told)
    assert await box.report() == b"told"
    assert (await box.snapshot()).diff(box.image.pristine) == Patch()
    assert [path for method, path, _ in server[0].asked if method == "DELETE"] == [f"{PODS}/pod"]


async def test_a_sandbox_is_closed_when_it_is_dead(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer]
) -> None:
    await told(containerStatuses=DEAD)
    await box.close()
    assert server[0].severed == 1 and box._stream.end is StreamEnd.HUNG_UP
    await box.close()
    assert server[0].severed == 1


async def test_a_sandbox_that_may_be_alive_is_not_closed_in_silence(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    with pytest.raises(SandboxError, match="does not say that the work container"):
        await box.close()
    assert server[0].severed == 1 and box._stream.end is StreamEnd.HUNG_UP, "what there is to give back is given back"
    await box.close()


async def test_a_sandbox_that_was_taken_away_is_closed_without_being_killed_twice(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    server[0].script = [GONE]
    with pytest.raises(SandboxKilledError):
        await box.kill()
    await box.close()
    assert server[0].severed == 1


async def test_a_sandbox_that_was_taken_away_unnoticed_is_closed(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    server[0].script = [GONE]
    await box.close()
    assert server[0].severed == 1


async def test_a_cluster_that_is_silent_when_a_sandbox_is_killed_took_it(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    silence(server[0])
    server[0].cut()
    with pytest.raises(RuntimeLostError, match="the cluster does not answer"):
        await box.kill()


async def test_a_cluster_that_is_silent_while_its_stream_goes_on_took_nothing(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    silence(server[0])
    with pytest.raises(SandboxError, match="does not say that the work container") as found:
        await box.kill()
    assert not isinstance(found.value, SandboxLostError)


async def test_a_cluster_that_answers_and_says_nothing_took_nothing(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    server[0].cut()
    with pytest.raises(SandboxError, match="does not say that the work container") as found:
        await box.kill()
    assert not isinstance(found.value, SandboxLostError)


async def test_a_cluster_that_is_back_before_anybody_asked_took_nothing(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_module, "KILL_SECONDS", 0.2)
    monkeypatch.setattr("lego_rl.sandbox.kubernetes.taken_away.NODE_SECONDS", 20.0)
    server[0].cut()
    killing = asyncio.create_task(box.kill())
    await asyncio.sleep(0.4)
    await told(containerStatuses=DEAD)
    await killing
    assert await box.report() == b"told"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"conditions": [{"type": "Ready", "status": "False"}]}, RuntimeLostError),
        ({"reason": "Preempting"}, SandboxKilledError),
        ({"reason": "NodeLost"}, RuntimeLostError),
    ],
)
async def test_a_pod_that_leaves_while_it_is_killed_is_not_read(
    box: PodSandbox, told: Told, status: dict[str, Any], kind: type[SandboxLostError]
) -> None:
    """Its work container may be alive for all that the cluster says."""
    await told(containerStatuses=ALIVE, **status)
    with pytest.raises(kind):
        await box.kill()
    with pytest.raises(SandboxError, match="kill it first"):
        await box.snapshot()


async def test_a_pod_that_is_deleted_while_it_is_killed_was_taken(
    box: PodSandbox, server: tuple[Keeper, TestServer]
) -> None:
    server[0].script = [GONE]
    with pytest.raises(SandboxKilledError, match="somebody deleted the pod"):
        await box.kill()


async def test_a_pod_that_was_evicted_for_what_it_used_was_taken_by_nobody(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer]
) -> None:
    """And that stays so when the cluster tidies it away, and when it is silent then."""
    await told(phase="Failed", reason="Evicted", message="Usage of EmptyDir volume", containerStatuses=[])
    server[0].script = [GONE]
    await told.settled()
    await box.kill()
    assert box.limit_hits().disk
    silence(server[0])
    await cut_off(box, server[0])
    for read in (box.snapshot, box.report):
        with pytest.raises(SandboxError, match="files of pod pod are gone: Usage of EmptyDir") as found:
            await read()
        assert not isinstance(found.value, SandboxLostError)


@pytest.mark.parametrize("what", ["snapshot", "report"])
@pytest.mark.parametrize(
    ("answer", "kind"), [(SILENT, RuntimeLostError), (GONE, SandboxKilledError), (None, SandboxError)]
)
async def test_what_goes_while_a_dead_pod_is_read_is_told_by_its_cause(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer], what: str, answer: Any, kind: type[SandboxError]
) -> None:
    await killed(box, told)
    keeper = server[0]
    keeper.breaks = lambda: None if answer is None else keeper.script.__setitem__(slice(None), [answer])
    with pytest.raises(kind) as found:
        await getattr(box, what)()
    assert type(found.value) is kind


@pytest.mark.parametrize("what", ["snapshot", "report"])
async def test_a_cluster_that_is_silent_before_a_dead_pod_is_read_took_it(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer], what: str
) -> None:
    await killed(box, told)
    silence(server[0])
    await cut_off(box, server[0])
    with pytest.raises(RuntimeLostError):
        await getattr(box, what)()


@pytest.mark.parametrize("answer", [SILENT, GONE])
async def test_what_the_keeper_said_of_the_files_is_nobodys_loss(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer], answer: Any
) -> None:
    await killed(box, told)
    server[0].status = 1 << 8  # it refuses: whatever becomes of the cluster, that is why there are no files
    server[0].script = [answer]
    with pytest.raises(SandboxError) as found:
        await box.snapshot()
    assert not isinstance(found.value, SandboxLostError)


async def test_a_pod_that_this_host_gave_back_was_taken_by_nobody(
    box: PodSandbox, told: Told, server: tuple[Keeper, TestServer]
) -> None:
    await killed(box, told)
    await box.snapshot()
    server[0].script = [GONE]
    await told.settled()
    await cut_off(box, server[0])
    with pytest.raises(SandboxError, match="are gone") as found:
        await box.report()
    assert not isinstance(found.value, SandboxLostError)
