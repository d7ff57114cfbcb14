"""The Docker Engine's HTTP interface, as much of it as sandboxes need.

Invariant: every call ends in bounded time, whatever the daemon does in the middle of it, and one that it refuses is a
`DaemonError` with its own words. Nothing is made without labels. Calls block, so an event loop makes them from a thread
(`in_thread`).

Source: the Engine API reference (docs.docker.com/reference/api/engine), version 1.41 and later. Paths carry no version:
a daemon takes such a path for its own newest.
"""

import functools
import http.client
import io
import json
import os
import shutil
from collections.abc import Buffer, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, override
from urllib.parse import quote, urlencode

import msgspec

from lego_rl import threads
from lego_rl.errors import SandboxError
from lego_rl.sandbox.docker.answers import (
    Container,
    Image,
    Info,
    ListedContainer,
    Progress,
    Refusal,
    Volume,
    Volumes,
)
from lego_rl.sandbox.docker.wire import Connection

CALL_SECONDS = 60.0
"""How long a call may take in all; starting a container is the slowest of them."""
ARCHIVE_SECONDS = 600.0
"""The same, of taking the work tree out of an image."""
BUILD_SECONDS = 3600.0
"""The same, of building an image. A trial waits no longer than its task says; the image is there for the next one."""
START = 'eval "$(scripts/dockerd.sh start)"'
INSTALL = f"apt-get install docker.io, then {START}"
LOG = "read the log of the daemon; scripts/dockerd.sh keeps it beside its socket"

CALLS = ThreadPoolExecutor(32, "docker")
"""Threads that wait for a daemon: while one does not answer, nothing else of a run waits for a free thread."""

type Json = Mapping[str, Any]
"""The body of a request, as the reference describes it."""


class DaemonError(SandboxError):
    """The daemon cannot be reached or refused a call.

    Args:
        problem: What is wrong.
        fix: What to do about it.
        status: HTTP status of the answer, 0 where there was none.
    """

    def __init__(self, problem: str, fix: str, *, status: int = 0) -> None:
        super().__init__(problem, fix)
        self.status = status


@dataclass(frozen=True)
class Engine:
    """A daemon on this machine.

    Attributes:
        socket: Where it listens.
    """

    socket: Path

    def info(self) -> Info:
        """What the daemon says of itself and of its machine."""
        return self._asked(Info, "/info")

    def image(self, name: str) -> Image | None:
        """An image by id or name; ``None`` where the daemon has none."""
        try:
            return self._asked(Image, f"/images/{quote(name)}/json")
        except DaemonError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise

    def import_image(self, root: bytes, name: str, labels: Mapping[str, str]) -> None:
        """Make an image called `name` of a tar of a root file system."""
        repository, _, tag = name.rpartition(":")
        said = "\n".join(f"LABEL {key}={json.dumps(value)}" for key, value in labels.items())
        query = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": said}
        self._progress("/images/create", query, root, CALL_SECONDS)

    def build(self, context: IO[bytes], name: str, labels: Mapping[str, str]) -> None:
        """Build an image called `name` of a tar of its context, with the base images that the daemon has.

        Raises:
            DaemonError: A step failed; the message is the end of what it printed.
        """
        query = {"t": name, "rm": "1", "forcerm": "1", "pull": "0", "labels": json.dumps(labels)}
        self._progress("/build", query, context, BUILD_SECONDS)

    def create(self, name: str, config: Json, labels: Mapping[str, str]) -> None:
        """Create a container called `name`; it has the labels, and so has every volume that is made for it."""
        self._call("POST", "/containers/create", {"name": name}, _labelled(config, labels))

    def start(self, name: str) -> None:
        """Start a container."""
        self._call("POST", f"/containers/{name}/start")

    def wait(self, name: str) -> None:
        """Wait until the daemon knows that a container has ended, and has unmounted what was mounted for it."""
        self._call("POST", f"/containers/{name}/wait", {"condition": "not-running"})

    def container(self, name: str) -> Container:
        """What there is to know of a container."""
        return self._asked(Container, f"/containers/{name}/json")

    def printed(self, name: str) -> str:
        """The end of what a container's first process printed."""
        query = {"stdout": "1", "stderr": "1", "tail": "20"}
        stream = self._call("GET", f"/containers/{name}/logs", query)
        # Each piece has a head of 8 bytes, the last four of which are its length.
        text, position = b"", 0
        while position + 8 <= len(stream):
            size = int.from_bytes(stream[position + 4 : position + 8], "big")
            text += stream[position + 8 : position + 8 + size]
            position += 8 + size
        return text.decode(errors="replace")

    def remove(self, name: str) -> None:
        """Kill a container and remove it with its volumes; one that is gone is fine."""
        try:
            self._call("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
        except DaemonError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def containers(self, labels: Mapping[str, str]) -> list[ListedContainer]:
        """All containers that have these labels, whatever their state."""
        return self._asked(list[ListedContainer], "/containers/json", {"all": "1", "filters": _filters(labels)})

    def volumes(self, labels: Mapping[str, str]) -> list[Volume]:
        """All volumes that have these labels."""
        return list(self._asked(Volumes, "/volumes", {"filters": _filters(labels)}).volumes or ())

    def remove_volume(self, name: str) -> None:
        """Remove a volume; one that is gone is fine."""
        try:
            self._call("DELETE", f"/volumes/{quote(name)}")
        except DaemonError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    @contextmanager
    def archive(self, name: str, path: str) -> Iterator[IO[bytes]]:
        """A tar of a path in a container, as a stream; nothing in the container is executed for it."""
        query = {"path": path}
        with self._open("GET", f"/containers/{name}/archive", query, seconds=ARCHIVE_SECONDS) as response:
            yield io.BufferedReader(_Body(response, self._answering))

    def _asked[T](self, kind: type[T], path: str, query: Mapping[str, str] | None = None) -> T:
        """An answer as what it should be."""
        return _read(kind, self._call("GET", path, query), path)

    def _call(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Json | None = None) -> bytes:
        content = json.dumps(body).encode() if body is not None else None
        with self._open(method, path, query, content) as response, self._answering():
            return response.read()

    def _progress(self, path: str, query: Mapping[str, str], body: bytes | IO[bytes], seconds: float) -> None:
        """Make a call that reports as it goes; a failure comes as one of the lines, with status 200."""
        tar = "application/x-tar"
        with self._open("POST", path, query, body, kind=tar, seconds=seconds) as response, self._answering():
            said = ""
            for line in response:
                message = _read(Progress, line, path)
                said = message.stream.strip() or said
                if message.error:
                    raise DaemonError(
                        f"Docker: {_one_line(message.error)} ({_one_line(said)})", LOG, status=response.status
                    )

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | IO[bytes] | None = None,
        *,
        kind: str = "application/json",
        seconds: float | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        connection = Connection(self.socket, CALL_SECONDS if seconds is None else seconds)
        url = f"{path}?{urlencode(query)}" if query else path
        with closing(connection):
            with self._answering():
                connection.request(method, url, body, {"Content-Type": kind})
                response = connection.getresponse()
                if response.status >= http.client.BAD_REQUEST:
                    refusal = f"Docker refused {method} {path}: {_refusal(response)}"
                    raise DaemonError(refusal, LOG, status=response.status)
            yield response

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Around every wait for the daemon: one that gives no answer is a `DaemonError`."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> DaemonError:
        """The error for a daemon that gave no answer, with the one command that mends it."""
        if isinstance(error, PermissionError):
            return DaemonError(
                f"this user may not use the Docker daemon at {self.socket}",
                "sudo usermod -aG docker $USER, then log in again",
            )
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            installed = shutil.which("dockerd", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin:/sbin")
            return DaemonError(f"no Docker daemon listens at {self.socket}", START if installed else INSTALL)
        return DaemonError(f"the Docker daemon at {self.socket} gave no answer: {error or type(error).__name__}", LOG)


class _Body(io.RawIOBase):
    """The body of an answer while it comes; where it breaks off, that is a `DaemonError`."""

    def __init__(
        self, response: http.client.HTTPResponse, answering: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__()
        self._response = response
        self._answering = answering

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        with self._answering():
            return self._response.readinto(buffer)


async def in_thread[**P, T](call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Make calls in a thread; a cancelled caller goes on only when they have ended, with all that they do."""
    return await threads.in_thread(functools.partial(call, *arguments, **options), CALLS)


def _labelled(config: Json, labels: Mapping[str, str]) -> Json:
    """The body of a request for a container, with labels for all that is made for it."""
    host = config["HostConfig"]
    mounts = [
        {**mount, "VolumeOptions": {**mount.get("VolumeOptions", {}), "Labels": dict(labels)}}
        if mount["Type"] == "volume"
        else mount
        for mount in host.get("Mounts", ())
    ]
    return {**config, "Labels": dict(labels), "HostConfig": {**host, "Mounts": mounts}}


def _filters(labels: Mapping[str, str]) -> str:
    return json.dumps({"label": [f"{key}={value}" for key, value in labels.items()]})


def _refusal(response: http.client.HTTPResponse) -> str:
    content = response.read()
    try:
        return _one_line(msgspec.json.decode(content, type=Refusal).message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _one_line(content.decode(errors="replace")) or response.reason


def _read[T](kind: type[T], content: bytes, path: str) -> T:
    """An answer as what it should be. One that is something else was none of silence: it has a status."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DaemonError(f"Docker answered {path} with something odd: {error}", LOG, status=http.client.OK) from error


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
