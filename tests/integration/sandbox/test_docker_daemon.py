"""What of a daemon is trusted, and what of its containers is ours."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_tools import shell, under_way

from lego_rl.errors import SandboxError
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.docker import box as box_module
from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.docker.config import SOCKET
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.docker.image import DockerImage
from lego_rl.sandbox.docker.labels import OWNER, SANDBOX, STATE, Mark
from lego_rl.sandbox.docker.provider import DockerProvider
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.loss import LossCause
from lego_rl.sandbox.sandbox import Completed, Phase
from lego_rl.sandbox.state import State, own_stamp
from lego_rl.tasks.network import NO_NETWORK, PublicNetwork
from tests.leftovers_in_docker import dead_stamp

pytestmark = pytest.mark.docker

NOBODY = 65534


@pytest.fixture
def image(contained: DockerImage) -> DockerImage:
    return contained


@pytest.fixture
def engine(image: DockerImage) -> Engine:
    return image.engine


def names(engine: Engine) -> set[str]:
    """Of all containers; a daemon of the machine may have some of anybody's."""
    return {name for found in engine.containers({}) for name in found.names or ()}


def of_sandboxes(engine: Engine) -> set[str]:
    return {name for name in names(engine) if name.startswith("/lego-rl-")}


def test_only_our_own_are_reaped(engine: Engine, image: DockerImage, state: State, tmp_path: Path) -> None:
    mine, dead = str(state.root.resolve()), dead_stamp()
    pid, started, _, *where = dead.split(".")
    elsewhere = ".".join((pid, started, "1", *where))
    labels = {
        "stale": {STATE: mine, OWNER: dead, SANDBOX: "stale"},
        "stale-tree": {STATE: mine, OWNER: dead, SANDBOX: "stale"},
        "of-a-living-owner": {STATE: mine, OWNER: own_stamp(), SANDBOX: "of-a-living-owner"},
        "of-another-namespace": {STATE: mine, OWNER: elsewhere, SANDBOX: "of-another-namespace"},
        "of-nobody": {STATE: mine, SANDBOX: "of-nobody"},
        "of-another-state": {STATE: str(tmp_path), OWNER: dead, SANDBOX: "of-another-state"},
        "of-another-name": {STATE: mine, OWNER: dead, SANDBOX: "gone"},  # as of an image that has such labels
        "foreign": {},
    }
    for name, each in labels.items():
        volume = {"Type": "volume", "Target": "/v", "Source": f"volume-{name}"}
        body = {"Image": image.root.image, "Entrypoint": ["none"]}
        engine.create(f"lego-rl-{name}", {**body, "HostConfig": {"NetworkMode": "none", "Mounts": [volume]}}, each)
    gone = {"stale", "stale-tree"}
    try:
        before = names(engine)
        assert DockerProvider(state, engine).reap() == ["stale"]
        assert before - names(engine) == {f"/lego-rl-{name}" for name in gone}
        left = {found.name for found in engine.volumes({})}
        assert not {f"volume-{name}" for name in gone} & left
        assert {f"volume-{name}" for name in labels.keys() - gone - {"of-another-name"}} <= left
    finally:
        for name in labels:
            engine.remove(f"lego-rl-{name}")
            engine.remove_volume(f"volume-{name}")


KILLED_TAKING_A_TREE = """
import os, signal, sys
from pathlib import Path
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.labels import Mark
from lego_rl.sandbox.docker.tree import _take_out
from lego_rl.sandbox.state import State
Engine.archive = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
daemon, image, state = sys.argv[1:]
_take_out(Engine(Path(daemon)), image, "/app", Path(state), Mark.of_this_process(State(Path(state))))
"""


def test_a_container_that_shows_an_image_is_reaped(engine: Engine, image: DockerImage, state: State) -> None:
    before = names(engine)
    argv = [sys.executable, "-c", KILLED_TAKING_A_TREE, str(engine.socket), image.root.image, str(state.root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = names(engine) - before
    (removed,) = DockerProvider(state, engine).reap()
    assert left == f"/lego-rl-{removed}-tree"
    assert names(engine) == before


async def test_nobody_else_is_taken_for_the_first_process(
    engine: Engine, image: DockerImage, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Engine.start
    with socket.socket(socket.AF_UNIX) as impostor:

        def call_first(self: Engine, name: str) -> None:
            (run,) = state.runs.iterdir()
            folder = os.open(run / "control", os.O_PATH)
            impostor.connect(f"/proc/self/fd/{folder}/{SOCKET}")  # a socket's path is short
            os.close(folder)
            start(self, name)

        monkeypatch.setattr(Engine, "start", call_first)
        with pytest.raises(SandboxError, match=f"process {os.getpid()} called in place"):
            await image.start(Phase.AGENT)
    assert not list(state.runs.iterdir())
    assert not of_sandboxes(engine)


async def test_limits_that_are_not_in_force(
    engine: Engine, image: DockerImage, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cgroups, "held", lambda _: (1 << 40, 512))
    with pytest.raises(SandboxError, match="not what was asked for"):
        await image.start(Phase.AGENT)
    assert not list(state.runs.iterdir())
    assert not of_sandboxes(engine)


async def test_a_start_that_is_cancelled_leaves_nothing(engine: Engine, image: DockerImage, state: State) -> None:
    cancelled = 0
    for seconds in (0.0, 0.02, 0.1, 0.25):
        start = asyncio.create_task(image.start(Phase.AGENT))
        await asyncio.sleep(seconds)
        start.cancel()
        try:
            await (await start).close()  # it was ready before
        except asyncio.CancelledError:
            cancelled += 1
        assert not list(state.runs.iterdir())
        assert not of_sandboxes(engine)
    assert cancelled >= 2


async def test_the_socket_of_a_started_container_is_gone(image: DockerImage) -> None:
    box = await image.start(Phase.AGENT)
    try:
        assert not list(box.run_folder.control.iterdir())
        assert (await shell(box, "ls /run/control")).stdout == ""
    finally:
        await box.close()


async def test_a_daemon_that_is_gone_does_not_hold_what_was_done(
    image: DockerImage, state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = await image.start(Phase.AGENT)
    await shell(box, "echo changed > calc/data.txt")
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_open", unreachable)
        await box.kill()
        changes = (await box.snapshot()).diff(image.pristine).changes
        await box.close()
    assert [change.path for change in changes] == ["calc/data.txt"]
    assert "left for the next run to remove" in caplog.text
    # Of an owner that lives nothing is taken; once it is dead, the next run finds the container by its labels.
    assert DockerProvider(state, image.engine).reap() == []
    await box_module._remove_container(image, box.run_folder)
    assert not list(state.runs.iterdir())


def unreachable(*_: object, **__: object) -> None:
    raise DaemonError("the daemon is gone", "start it")


async def test_an_out_of_memory_first_process_is_known_for_it(image: DockerImage) -> None:
    """The control groups are gone with it, so that only Docker can tell."""
    box: DockerSandbox = await image.start(Phase.AGENT, limits=Limits(memory_mb=128))
    try:
        box._cgroups = Cgroups({"memory": Path("/nowhere"), "pids": Path("/nowhere")}, "cgroup-v1")
        await shell(box, "head -c 300M /dev/zero | tail", timeout_sec=30)
        await box.kill()
        assert box.limit_hits().memory == 1
    finally:
        await box.close()


FETCH = """
import json, re, socket, struct, sys
with open("/proc/net/route") as routes:
    fields = [line.split() for line in routes][1:]
gateway = [socket.inet_ntoa(struct.pack("<I", int(field[2], 16))) for field in fields if field[1] == "00000000"]
try:
    with socket.create_connection((gateway[0], int(sys.argv[1])), 5) as client:
        print(client.recv(100).decode())
except (OSError, IndexError) as error:
    print(type(error).__name__)
"""


async def test_a_network_is_there_only_where_it_is_asked_for(image: DockerImage) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "0.0.0.0", 0)
    port = str(server.sockets[0].getsockname()[1])
    said = {}
    async with server:
        for network in (NO_NETWORK, PublicNetwork()):
            box = await DockerSandbox.start(image, Phase.GRADING, network)
            try:
                done = await box.exec(["python3", "-c", FETCH, port], timeout_sec=20)
                names = await shell(box, "cat /etc/nsswitch.conf; wc -c < /etc/resolv.conf; id -un; hostname")
                said[network] = (done.stdout.strip(), "dns" in names.stdout, names.stdout.splitlines()[-2:])
            finally:
                await box.close()
    assert said == {
        NO_NETWORK: ("IndexError", False, ["agent", "sandbox"]),
        PublicNetwork(): ("hello", True, ["agent", "sandbox"]),
    }


async def lost(image: DockerImage, ended: Callable[[DockerSandbox], object]) -> Completed:
    """How a command ends in a container that the host takes away under it."""
    box = await image.start(Phase.AGENT)
    try:
        running = await under_way(box, "sleep 60")
        await asyncio.to_thread(ended, box)
        return await running
    finally:
        await box.close()


def killed(box: DockerSandbox) -> None:
    os.kill(box._watchdog._first, signal.SIGKILL)


def removed(box: DockerSandbox) -> None:
    box.image.engine.remove(Mark.of_run(box.image.state, box.run_folder).name())


def hung_up(box: DockerSandbox) -> None:
    """Not told apart from an end of its own."""
    box._channel.close()


@pytest.mark.parametrize(("ended", "found"), [(killed, "SIGKILL"), (removed, "removed|SIGKILL"), (hung_up, None)])
async def test_who_took_a_container_away(
    image: DockerImage, ended: Callable[[DockerSandbox], object], found: str | None
) -> None:
    done = await lost(image, ended)
    assert done.died
    assert (done.loss is None) == (found is None)
    if done.loss is not None and found is not None:
        assert done.loss.cause is LossCause.KILLED
        assert re.search(found, done.loss.found)


async def test_a_daemon_that_is_gone_with_its_container_is_a_lost_runtime(image: DockerImage, tmp_path: Path) -> None:
    def daemon_goes(box: DockerSandbox) -> None:
        ground, daemon = box.image, box.image.engine
        box.image = replace(ground, engine=replace(daemon, socket=tmp_path / "nobody"))
        killed(box)
        restored.append(lambda: setattr(box, "image", ground))

    restored: list[Callable[[], None]] = []
    box = await image.start(Phase.AGENT)
    try:
        running = await under_way(box, "sleep 60")
        daemon_goes(box)
        done = await running
    finally:
        restored[0]()
        await box.close()
    assert done.loss is not None
    assert done.loss.cause is LossCause.RUNTIME


async def test_a_container_that_ran_into_its_memory_is_not_taken_for_killed(image: DockerImage) -> None:
    box = await image.start(Phase.AGENT, limits=Limits(memory_mb=128))
    try:
        hog = "import time; kept = bytearray(256 << 20); time.sleep(9)"
        running = asyncio.create_task(shell(box, f"python3 -c '{hog}'; sleep 60"))
        async with asyncio.timeout(60):
            while not box.limit_hits().memory:  # noqa: ASYNC110  # Nothing tells of it.
                await asyncio.sleep(0.05)
        killed(box)
        done = await running
    finally:
        await box.close()
    assert (done.died, done.loss) == (True, None)
