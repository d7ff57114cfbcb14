"""Every call to a daemon ends in bounded time, whatever it does, and nothing is made without labels."""

import io
import json
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lego_rl.sandbox.docker import engine as engine_module
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.docker.tree import unpack

BOUND = 0.6
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = json.dumps({"stream": "still at it"}).encode() + b"\n"


def silent(_: socket.socket) -> None:
    """Takes a call and says nothing."""


def trickling(client: socket.socket) -> None:
    """Is never silent for long, and never comes to an end."""
    client.sendall(HEAD)
    while True:
        client.sendall(b"%x\r\n%s\r\n" % (len(LINE), LINE))
        time.sleep(0.02)


@contextmanager
def daemon(folder: Path, conduct: Callable[[socket.socket], None]) -> Iterator[Engine]:
    """One that listens, and then does as it is told."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "d"))
        server.listen()
        clients = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    clients.append(client)
                    with suppress(OSError):
                        conduct(client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Engine(folder / "d")
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for client in clients:
                client.close()
            thread.join()


def archived(engine: Engine) -> None:
    with engine.archive("c", "/app") as stream:
        while stream.read(1 << 10):
            pass


CALLS: tuple[Callable[[Engine], object], ...] = (
    Engine.info,
    lambda engine: engine.image("i"),
    lambda engine: engine.create("c", {"HostConfig": {}}, {}),
    lambda engine: engine.start("c"),
    lambda engine: engine.wait("c"),
    lambda engine: engine.container("c"),
    lambda engine: engine.printed("c"),
    lambda engine: engine.remove("c"),
    lambda engine: engine.containers({}),
    lambda engine: engine.volumes({}),
    lambda engine: engine.remove_volume("v"),
    lambda engine: engine.import_image(b"", "i:1", {}),
    lambda engine: engine.build(io.BytesIO(b"x" * 1024), "i:1", {}),
    archived,
)


@pytest.mark.parametrize("conduct", [silent, trickling])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_ends(
    call: Callable[[Engine], object],
    conduct: Callable[[socket.socket], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CALL_SECONDS", "ARCHIVE_SECONDS", "BUILD_SECONDS"):
        monkeypatch.setattr(engine_module, name, BOUND)
    with daemon(tmp_path, conduct) as engine:
        started = time.monotonic()
        with pytest.raises(DaemonError, match="timed out"):
            call(engine)
        assert BOUND * 0.9 < time.monotonic() - started < BOUND + 5


def answering(body: bytes) -> Callable[[socket.socket], None]:
    """Answers with a body."""

    def answer(client: socket.socket) -> None:
        client.recv(1 << 16)
        ended(client, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return answer


def ended(client: socket.socket, said: bytes) -> None:
    """Say something and hang up, when all that the other side has to say is heard."""
    client.sendall(said)
    client.shutdown(socket.SHUT_WR)
    while client.recv(1 << 16):
        pass


ODD = (
    b"",
    b"null",
    b"7",
    b"{",
    b"\xff",
    b"[1]",
    b'{"Id": 1, "Volumes": 7}',
    b'{"State": {}, "Volumes": [7]}',
    b"[" * 100_000,
    b'{"Volumes": [{}]}',
)
ODD_INFO = (b"", b"null", b"[]", b'{"MemoryLimit": "yes"}', b'{"SecurityOptions": [1]}')


@pytest.mark.parametrize("answer", ODD)
@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.image("i"),
        lambda engine: engine.container("c"),
        lambda engine: engine.containers({}),
        lambda engine: engine.volumes({}),
    ],
)
def test_an_odd_answer_is_the_daemons_error(call: Callable[[Engine], object], answer: bytes, tmp_path: Path) -> None:
    with daemon(tmp_path, answering(answer)) as engine, pytest.raises(DaemonError, match="something odd") as found:
        call(engine)
    assert found.value.status == 200, "it answered: it is not silent"


@pytest.mark.parametrize("answer", ODD_INFO)
def test_a_daemon_that_says_odd_things_of_itself(answer: bytes, tmp_path: Path) -> None:
    with daemon(tmp_path, answering(answer)) as engine, pytest.raises(DaemonError, match="something odd"):
        engine.info()


@pytest.mark.parametrize("answer", [b"\n", b"odd\n", b'{"error": 1}\n', b'{"error": "no room", "stream": "FROM x"}\n'])
def test_a_build_that_says_odd_things_failed(answer: bytes, tmp_path: Path) -> None:
    with daemon(tmp_path, answering(answer)) as engine, pytest.raises(DaemonError) as found:
        engine.build(io.BytesIO(b""), "i:1", {})
    assert found.value.status == 200 and ("no room (FROM x)" in str(found.value) or "something odd" in str(found.value))


def test_an_archive_that_breaks_off_is_the_daemons_error(tmp_path: Path) -> None:
    def resets(client: socket.socket) -> None:
        client.recv(1 << 16)
        ended(client, HEAD + b"fffff\r\nthe beginning")

    with (
        daemon(tmp_path, resets) as engine,
        pytest.raises(DaemonError, match="gave no answer"),
        engine.archive("c", "/app") as stream,
    ):
        unpack(stream, tmp_path)


def test_what_the_host_lacks_is_not_the_daemons_error(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name in ("app", "app/folder"):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
    with (
        daemon(tmp_path, answering(content.getvalue())) as engine,
        pytest.raises(FileNotFoundError),
        engine.archive("c", "/app") as stream,
    ):
        unpack(stream, tmp_path / "absent")


def test_all_calls_are_tried() -> None:
    known = {name for name in vars(Engine) if not name.startswith("_")} - {"socket"}
    assert len(known) == len(CALLS)


def test_what_is_made_has_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Engine, "_call", lambda _, *call: asked.append(call))
    volume = {"Type": "volume", "Target": "/v", "VolumeOptions": {"NoCopy": True}}
    bind = {"Type": "bind", "Target": "/b"}
    Engine(Path("d")).create("c", {"Image": "i", "HostConfig": {"Mounts": [volume, bind]}}, {"whose": "mine"})
    ((_, _, _, body),) = asked
    assert body == {
        "Image": "i",
        "Labels": {"whose": "mine"},
        "HostConfig": {
            "Mounts": [{**volume, "VolumeOptions": {"NoCopy": True, "Labels": {"whose": "mine"}}}, bind],
        },
    }
