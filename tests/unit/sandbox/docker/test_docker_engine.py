"""Every call to a daemon ends in bounded time, whatever it does, and nothing is made without labels."""

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lego_rl.sandbox.docker import engine as engine_module
from lego_rl.sandbox.docker.engine import DaemonError, Engine

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
        with pytest.raises((DaemonError, TimeoutError), match="timed out"):
            call(engine)
        assert BOUND * 0.9 < time.monotonic() - started < BOUND + 5


def test_all_calls_are_tried() -> None:
    known = {name for name in vars(Engine) if not name.startswith("_")} - {"socket"}
    assert len(known) == len(CALLS)


def test_what_is_made_has_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(Engine, "_object", lambda _, *call: asked.append(call))
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
