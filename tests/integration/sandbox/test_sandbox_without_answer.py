"""A sandbox that does not answer holds nobody up: neither its transfers nor its end wait for it without bounds."""

import asyncio
import signal

import pytest
from sandbox_tools import python, shell

from lego_rl.errors import SandboxError
from lego_rl.sandbox import controlled as box_module
from lego_rl.sandbox import transfer
from lego_rl.sandbox.sandbox import Sandbox

STOP_WHATEVER_COMES_NEXT = """
import os, signal
me = os.getpid()
print("ready", flush=True)
while True:
    for pid in range(me + 1, me + 40):
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            pass
"""


async def test_a_transfer_that_is_stopped_from_inside_ends(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TRANSFER_SECONDS", 2.0)
    await shell(box, "head -c 40000000 /dev/zero > /app/large")
    ready = asyncio.Event()

    async def hear(_: bytes, __: str) -> None:
        ready.set()

    async with asyncio.timeout(60):
        stopper = asyncio.create_task(python(box, STOP_WHATEVER_COMES_NEXT, sink=hear))
        await ready.wait()
        with pytest.raises(SandboxError, match="did not end within"):
            await box.get("/app")
        stopper.cancel()
        await asyncio.wait({stopper})
        assert (await shell(box, "echo alive")).stdout == "alive\n"


async def test_a_first_process_that_does_not_answer_is_killed(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_module, "ANSWER_SECONDS", 0.5)
    signal.pidfd_send_signal(box._pidfd, signal.SIGSTOP)
    async with asyncio.timeout(60):
        assert (await shell(box, "true", timeout_sec=0.2)).timed_out
        assert (await shell(box, "true")).died


async def test_a_first_process_that_does_not_listen_is_an_error(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_module, "ANSWER_SECONDS", 0.5)
    signal.pidfd_send_signal(box._pidfd, signal.SIGSTOP)
    async with asyncio.timeout(60):
        with pytest.raises(SandboxError, match="did not listen within"):
            await box.listen(8100)


SAVES_WHAT_IT_HAS = "trap 'echo asked; echo saved > saved; exit' TERM; echo ready; while :; do sleep 0.05; done"
HEARS_NOTHING = "trap '' TERM; (trap '' TERM; sleep 60; echo late > late) & echo ready; sleep 60; echo late > late"


async def test_who_is_out_of_time_is_asked_to_end_before_it_is_killed(box: Sandbox) -> None:
    async with asyncio.timeout(60):
        asked = await shell(box, SAVES_WHAT_IT_HAS, timeout_sec=1.0, grace_sec=30.0)
        assert (asked.timed_out, asked.stdout) == (True, "ready\nasked\n")
        assert (await shell(box, "cat saved")).stdout == "saved\n"


async def test_who_does_not_end_is_killed_with_all_that_it_started(box: Sandbox) -> None:
    async with asyncio.timeout(60):
        deaf = await shell(box, HEARS_NOTHING, timeout_sec=1.0, grace_sec=0.5)
        assert (deaf.timed_out, deaf.stdout) == (True, "ready\n")
        assert (await shell(box, "ls; pgrep sleep")).stdout.split() == ["calc", "run.sh", "setup.cfg", "tests"]


async def test_without_grace_nobody_is_asked(box: Sandbox) -> None:
    async with asyncio.timeout(60):
        assert (await shell(box, SAVES_WHAT_IT_HAS, timeout_sec=1.0)).stdout == "ready\n"
        assert (await shell(box, "ls saved")).returncode != 0
