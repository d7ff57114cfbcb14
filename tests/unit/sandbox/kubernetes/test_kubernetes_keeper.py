"""What an agent can make of a keeper's looks and relays: they are bounded, whatever it does."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lego_rl.sandbox import inside_files
from lego_rl.sandbox.kubernetes.answers import Metadata, Pod, PodStatus
from lego_rl.sandbox.kubernetes.kernel_counts import count_in, memory_kills
from lego_rl.sandbox.kubernetes.limit_hits import limit_hits
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.transfer import TransferError

sys.modules.setdefault("inside_files", inside_files)
from lego_rl.sandbox.kubernetes import keeper  # noqa: E402

LIMIT = 1 << 30
PART = "d" * 250


@contextmanager
def far_below(folder: Path, parts: int) -> Iterator[int]:
    """An open folder below others with long names."""
    at = os.open(folder, os.O_DIRECTORY)
    for _ in range(parts):
        os.mkdir(PART, dir_fd=at)
        inner = os.open(PART, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    try:
        yield at
    finally:
        os.close(at)


def test_a_tree_is_as_large_as_its_blocks(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("/")
    size = keeper.size_of([str(tmp_path)], LIMIT)
    assert 100_000 < size < 200_000
    assert keeper.size_of([str(tmp_path)], 50_000) > 50_000
    assert keeper.size_of([str(tmp_path / "nowhere")], LIMIT) == 0


def test_names_that_take_too_much_memory_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MAX_NAMES_BYTES", 1 << 20)
    with far_below(tmp_path, 14) as at:
        for number in range(200):
            os.mkdir(str(number), dir_fd=at)
        assert keeper.size_of([str(tmp_path)], LIMIT) < LIMIT
        for number in range(200, 400):
            os.mkdir(str(number), dir_fd=at)
        assert keeper.size_of([str(tmp_path)], LIMIT) > LIMIT


@pytest.mark.parametrize("parts", [15, 20])
def test_a_file_whose_path_cannot_be_looked_at_is_too_large(tmp_path: Path, parts: int) -> None:
    with far_below(tmp_path, parts) as at:
        os.close(os.open("f" * 250, os.O_CREAT | os.O_WRONLY, dir_fd=at))
        if parts == 15:
            os.close(os.open("g" * 250, os.O_CREAT | os.O_WRONLY, dir_fd=at))
    length = len(str(tmp_path)) + (parts + 1) * 251
    assert (keeper.size_of([str(tmp_path)], LIMIT) > LIMIT) == (length >= 4096)


def test_what_cannot_be_measured_is_no_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: str) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(keeper.os, "scandir", fails)
    with pytest.raises(OSError, match="Too many open files"):
        keeper.size_of([str(tmp_path)], LIMIT)


class Asked:
    """A request to a keeper in this process."""

    def __init__(self, *fields: str) -> None:
        self.fields = list(fields)


def test_a_relay_holds_a_bounded_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MAX_CONNECTIONS", 3)
    with socket.create_server(("127.0.0.1", 0)) as gateway, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        before = threading.active_count()
        keeper.relay(Asked("relay", str(port), "127.0.0.1", str(gateway.getsockname()[1])))  # type: ignore[arg-type]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        gateway.settimeout(5)
        served = [gateway.accept()[0] for _ in range(3)]
        gateway.settimeout(0.3)
        with pytest.raises(TimeoutError):
            gateway.accept()
        assert threading.active_count() - before <= 1 + 2 * 3
        for each in (*served, *clients[:3]):
            each.close()
        gateway.settimeout(5)
        later, _ = gateway.accept()  # whoever waits has its turn
        later.close()
        for each in clients:
            each.close()
        until = time.monotonic() + 5
        while threading.active_count() - before > 1 and time.monotonic() < until:
            try:
                gateway.settimeout(0.05)
                gateway.accept()[0].close()
            except TimeoutError:
                continue


@pytest.mark.parametrize(
    ("content", "word", "count"),
    [
        (b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill", 3),
        (b"low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n", "oom_kill", 2),
        (b"max 12\n", "max", 12),
        (b"max -1\n", "max", 0),
        (b"", "max", 0),
        (b"max 18446744073709551615\n", "max", 2**64 - 1),
        (b"max " + b"9" * 5000 + b"\n", "max", 0),
    ],
)
def test_what_the_kernel_counts(content: bytes, word: str, count: int) -> None:
    assert count_in(content, word) == count


@pytest.mark.parametrize(
    "first",
    [[], [Record("", "directory")], [Record("", "file")] * 2, TransferError("there is none", ""), TimeoutError()],
)
async def test_what_does_not_say_a_count_is_passed_over(first: list[Record] | Exception) -> None:
    async def get(path: str) -> list[Record]:
        if "memory.events" not in path:
            return [Record("", "file", b"oom_kill_disable 0\noom_kill 3\n")]
        if isinstance(first, Exception):
            raise first
        return first

    assert await memory_kills(get) == 3


def evicted(message: str) -> Pod:
    return Pod(Metadata("pod"), PodStatus("Failed", "Evicted", message))


@pytest.mark.parametrize(
    ("pod", "hits"),
    [
        (evicted('Usage of EmptyDir volume "tree" exceeds the limit "1Mi". '), LimitHits(disk=True)),
        (evicted("The node was low on resource: pids. "), LimitHits(processes=1)),
        (evicted("The node was low on resource: memory. "), LimitHits()),
        (evicted("for a reason of its own"), LimitHits()),
        (Pod(Metadata("pod"), PodStatus("Running")), LimitHits()),
        (None, LimitHits()),
    ],
)
def test_an_eviction_is_the_limit_that_it_names(pod: Pod | None, hits: LimitHits) -> None:
    assert limit_hits(LimitHits(), pod) == hits


def test_what_was_measured_stays() -> None:
    measured = LimitHits(memory=2, processes=3, unmeasured=True)
    assert limit_hits(measured, evicted("The node was low on resource: pids. ")) == measured
