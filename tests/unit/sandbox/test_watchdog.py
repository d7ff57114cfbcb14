"""What the watchdog measures cannot be hidden from it, and where it cannot measure, the sandbox ends."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from lego_rl.sandbox import watchdog
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.pace import Pace, TooMuchError
from lego_rl.sandbox.processes import descendants, exceeds
from lego_rl.sandbox.state import State
from lego_rl.sandbox.unlinked import unlinked_size
from lego_rl.sandbox.watchdog import Watchdog

CHAIN = """
import os, sys, time
depth = int(sys.argv[1])
for _ in range(depth):
    if os.fork():
        os.wait()
        os._exit(0)
print("deep", flush=True)
time.sleep(60)
"""
NAMED = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe\\n", 0, 0, 0)
block = bytearray(b"x" * (32 << 20))
print("named", flush=True)
time.sleep(60)
"""
DESCRIPTORS = """
import os, sys, time
held = os.open("/dev/null", os.O_RDONLY)
for _ in range(int(sys.argv[1])):
    os.dup(held)
print("held", flush=True)
time.sleep(60)
"""
MAPPINGS = """
import mmap, os, sys, time
held = [mmap.mmap(-1, 8192, flags=mmap.MAP_SHARED) for _ in range(int(sys.argv[1]))]
print("mapped", flush=True)
time.sleep(60)
"""
DEPTH = 120
RECURSION = """
import sys
from lego_rl.sandbox.processes import descendants
sys.setrecursionlimit(80)
print(len(descendants(int(sys.argv[1]))))
"""


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said its first line; it and its children end with the block."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def test_a_chain_of_processes_deeper_than_the_stack() -> None:
    with child(CHAIN, str(DEPTH)) as process:
        done = subprocess.run(
            [sys.executable, "-c", RECURSION, str(process.pid)], capture_output=True, text=True, check=False
        )
        assert (done.stdout.strip(), done.stderr) == (str(DEPTH + 1), "")


def test_a_process_whose_name_is_no_text_is_measured() -> None:
    with child(NAMED) as process:
        assert exceeds(process.pid, 16 << 10, Pace())
        assert not exceeds(process.pid, 1 << 20, Pace())


def test_a_process_that_is_gone() -> None:
    with child("print()") as process:
        gone = process.pid
    assert descendants(gone) == [gone]
    assert not exceeds(gone, 0, Pace())


@pytest.mark.parametrize(("code", "number"), [(DESCRIPTORS, "15000"), (MAPPINGS, "15000")])
def test_more_than_a_look_may_take(code: str, number: str) -> None:
    with child(code, number) as process:
        assert unlinked_size([process.pid], Pace()) == 0
        with pytest.raises(TooMuchError, match="more than 0 s of processor time"):
            unlinked_size([process.pid], Pace(0.005))


@asynccontextmanager
async def watched(tmp_path: Path, limits: Limits, *, content: int = 0) -> AsyncIterator[Watchdog]:
    """A watchdog over a process that does nothing but wait for its end, which must come."""
    run = State(tmp_path / "state").new_run()
    (run.upper / "large").write_bytes(bytes(content))
    first = await asyncio.create_subprocess_exec("sleep", "60")
    pidfd = os.pidfd_open(first.pid)
    watching = Watchdog(run, limits, first.pid, pidfd, watches_memory=False)
    try:
        yield watching
        assert await asyncio.wait_for(first.wait(), 10) == -9
    finally:
        watching.cancel()
        os.close(pidfd)


@pytest.mark.parametrize("name", ["measure", "unlinked_size"])
@pytest.mark.parametrize(
    "failure",
    [RecursionError(), OSError("no more descriptors"), UnicodeDecodeError("x", b"", 0, 1, ""), TooMuchError()],
)
async def test_a_sandbox_that_cannot_be_measured_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, failure: Exception
) -> None:
    def fail(*_: object) -> int:
        raise failure

    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, name, fail)
    async with watched(tmp_path, Limits()) as watching:
        pass
    assert watching.failed
    assert not (watching.disk_full or watching.memory_full)
    assert "its limits cannot be measured" in caplog.text


async def test_a_look_that_does_not_come_back_ends_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watchdog, "unlinked_size", lambda *_: may_end.wait(20))
    try:
        async with watched(tmp_path, Limits()) as watching:
            pass
    finally:
        may_end.set()
    assert watching.failed


async def test_slow_work_of_other_sandboxes_does_not_delay_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    may_end = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    slow = asyncio.create_task(asyncio.to_thread(may_end.wait))
    try:
        async with watched(tmp_path, Limits(disk_mb=1), content=2 << 20) as watching:
            pass
    finally:
        may_end.set()
        await slow
    assert watching.disk_full


async def test_what_the_processes_hold_does_not_delay_the_look_at_the_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "unlinked_size", lambda *_: may_end.wait(20))
    try:
        async with watched(tmp_path, Limits(disk_mb=1), content=2 << 20) as watching:
            pass
    finally:
        may_end.set()
    assert watching.disk_full


async def test_a_file_that_is_given_a_name_does_not_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([700 << 10])
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def unlinked(*_: object) -> int:
        found = next(sizes, 0)  # at first it has no name, and then the one below
        if not found:
            loop.call_soon_threadsafe(looked.set)
        return found

    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "unlinked_size", unlinked)
    async with watched(tmp_path, Limits(disk_mb=1), content=700 << 10) as watching:
        await asyncio.wait_for(looked.wait(), 10)
        assert not watching.has_killed
        (watching._layers[0] / "more").write_bytes(bytes(700 << 10))
    assert watching.disk_full


@pytest.mark.parametrize(("hidden", "killed"), [((True, False), False), ((True, True), True)])
async def test_a_process_that_hides_for_a_moment_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: tuple[bool, ...], killed: bool
) -> None:
    """Every process does, between its fork and its program; meanwhile others may write on the same disk."""
    free = iter([100 << 20])  # and then nothing is left
    looks: list[bool] = []

    def hides(_: object) -> bool:
        looks.append(hidden[len(looks)] if len(looks) < len(hidden) else False)
        return looks[-1]

    monkeypatch.setattr(watchdog, "free_bytes", lambda _: next(free, 0))
    monkeypatch.setattr(watchdog, "hides", hides)
    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    async with watched(tmp_path, Limits(disk_mb=1)) as watching, asyncio.timeout(20):
        while len(looks) < len(hidden) + 2 and not watching.failed:  # noqa: ASYNC110  # Nothing tells of a look.
            await asyncio.sleep(0.01)
        assert watching.failed is killed
        watching.disk_full = True  # for the end that must come
