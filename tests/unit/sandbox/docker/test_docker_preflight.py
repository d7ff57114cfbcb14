"""What a daemon lacks is named with the one thing that mends it. The daemon here is a small server of its interface."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.docker.preflight import check_daemon, engine_of
from lego_rl.sandbox.settings import SandboxSettings

FIT: dict[str, Any] = {
    "OSType": "linux",
    "KernelVersion": os.uname().release,
    "SecurityOptions": ["name=seccomp,profile=default", "name=cgroupns"],
    "MemoryLimit": True,
    "PidsLimit": True,
}

type Answering = Callable[[bytes], Engine]


def response(body: object, status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Answering]:
    """Makes a daemon that gives every call the same answer and hangs up."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "d.sock"))
    server.listen()

    def make(answer: bytes) -> Engine:
        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with closing(connection):
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return Engine(tmp_path / "d.sock")

    yield make
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_one_that_is_fit(answering: Answering) -> None:
    check_daemon(answering(response(FIT)))


@pytest.mark.parametrize(
    ("lacks", "problem"),
    [
        ({"KernelVersion": "6.1.0-other"}, "runs on another machine or in a virtual one"),
        ({"OSType": "windows"}, "runs on another machine or in a virtual one"),
        ({"SecurityOptions": ["name=rootless"]}, "is rootless"),
        ({"SecurityOptions": ["name=userns"]}, "maps user ids"),
        ({"MemoryLimit": False}, r"cannot hold limits \(MemoryLimit\)"),
        ({"MemoryLimit": False, "PidsLimit": False}, r"cannot hold limits \(MemoryLimit and PidsLimit\)"),
    ],
)
def test_one_that_is_not(answering: Answering, lacks: dict[str, Any], problem: str) -> None:
    with pytest.raises(SandboxError, match=problem) as caught:
        check_daemon(answering(response({**FIT, **lacks})))
    assert caught.value.fix


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/sbin/dockerd")
    with pytest.raises(DaemonError, match="no Docker daemon listens at") as caught:
        check_daemon(Engine(tmp_path / "absent"))
    assert caught.value.fix == 'eval "$(scripts/dockerd.sh start)"'
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(DaemonError, match="no Docker daemon listens at") as caught:
        check_daemon(Engine(tmp_path / "absent"))
    assert caught.value.fix.startswith("apt-get install docker.io")


def test_one_that_this_user_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lego_rl.sandbox.docker.wire.Connection.connect", refuse)
    with pytest.raises(DaemonError, match="may not use the Docker daemon") as caught:
        check_daemon(Engine(tmp_path / "d.sock"))
    assert "usermod -aG docker" in caught.value.fix


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"nonsense\r\n\r\n", response([])],
    ids=["hangs up", "breaks off", "speaks another tongue", "answers with a list"],
)
def test_one_that_does_not_answer(answering: Answering, answer: bytes) -> None:
    with pytest.raises(DaemonError) as caught:
        check_daemon(answering(answer))
    assert caught.value.fix


def test_a_refusal_is_in_the_daemons_own_words(answering: Answering) -> None:
    engine = answering(response({"message": "no such\nthing"}, "409 Conflict"))
    with pytest.raises(DaemonError, match="refused POST /containers/x/start: no such; thing") as caught:
        engine.start("x")
    assert caught.value.status == 409


def test_what_is_not_there_is_none_or_removed(answering: Answering) -> None:
    engine = answering(response({"message": "no such thing"}, "404 Not Found"))
    assert engine.image("x:1") is None
    engine.remove("x")
    engine.remove_volume("x")


def test_a_build_fails_by_what_it_says(answering: Answering) -> None:
    lines = b"".join(
        json.dumps(line).encode() + b"\n"
        for line in ({"stream": "Step 1/1 : RUN x\n"}, {"stream": "x: not found\n"}, {"error": "returned 127"})
    )
    engine = answering(f"HTTP/1.1 200 OK\r\nContent-Length: {len(lines)}\r\n\r\n".encode() + lines)
    with pytest.raises(DaemonError, match=r"returned 127 \(x: not found\)"):
        engine.import_image(b"", "x:1", {})


def test_which_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert engine_of(None).socket == Path("/var/run/docker.sock")
    monkeypatch.setenv("DOCKER_HOST", "unix:///a/b.sock")
    assert engine_of(None).socket == Path("/a/b.sock")
    assert engine_of("unix:///c.sock").socket == Path("/c.sock")
    for remote in ("tcp://10.0.0.1:2375", "ssh://me@there", "unix://relative.sock"):
        with pytest.raises(SandboxError, match="may be on another machine"):
            engine_of(remote)


def test_a_folder_is_no_root_for_docker(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rootfs is for bubblewrap"):
        SandboxSettings(environment="docker", rootfs=tmp_path)
