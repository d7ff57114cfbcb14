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
