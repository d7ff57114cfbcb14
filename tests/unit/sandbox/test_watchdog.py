"""What the watchdog measures cannot be hidden from it, and where it cannot measure, the sandbox ends."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lego_rl.sandbox import watchdog
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.watchdog import Watchdog, descendants, exceeds

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
DEPTH = 120
RECURSION = """
import sys
from lego_rl.sandbox.watchdog import descendants
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
        assert exceeds(process.pid, 16 << 10)
        assert not exceeds(process.pid, 1 << 20)


def test_a_process_that_is_gone() -> None:
    with child("print()") as process:
        gone = process.pid
    assert descendants(gone) == [gone]
    assert not exceeds(gone, 0)


@pytest.mark.parametrize(
    "failure", [RecursionError(), OSError("no more descriptors"), UnicodeDecodeError("x", b"", 0, 1, "")]
)
async def test_a_sandbox_that_cannot_be_measured_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    def fail(_layer: Path, _limit: int) -> int:
        raise failure

    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "measure", fail)
    run: RunFolder = State(tmp_path / "state").new_run()
    first = await asyncio.create_subprocess_exec("sleep", "60")
    pidfd = os.pidfd_open(first.pid)
    try:
        watching = Watchdog(run, Limits(), first.pid, pidfd, watches_memory=False)
        assert await asyncio.wait_for(first.wait(), 10) == -9
        watching.cancel()
    finally:
        os.close(pidfd)
    assert watching.failed
    assert not (watching.disk_full or watching.memory_full)
    assert "its limits cannot be measured" in caplog.text


async def test_slow_work_of_other_sandboxes_does_not_delay_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "INTERVAL_SECONDS", 0.01)
    run = State(tmp_path / "state").new_run()
    (run.upper / "large").write_bytes(bytes(2 << 20))
    may_end = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    slow = asyncio.create_task(asyncio.to_thread(may_end.wait))
    first = await asyncio.create_subprocess_exec("sleep", "60")
    pidfd = os.pidfd_open(first.pid)
    try:
        watching = Watchdog(run, Limits(disk_mb=1), first.pid, pidfd, watches_memory=False)
        try:
            assert await asyncio.wait_for(first.wait(), 10) == -9
        finally:
            watching.cancel()
    finally:
        may_end.set()
        await slow
        os.close(pidfd)
    assert watching.disk_full
