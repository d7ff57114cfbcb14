"""What running sandboxes hold of the host, measured where they hold it."""

import asyncio
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox_tools import python

from lego_rl.sandbox.held import Held
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State

MIB = 1 << 20
HOLDS = """
import os, tempfile, time
{code}
print("held", flush=True)
time.sleep(60)
"""
ON_DISK = """
open("/app/named", "wb").write(bytes(20 << 20))
unlinked = open("/app/unlinked", "wb")
os.unlink("/app/unlinked")
unlinked.write(bytes(20 << 20))
unlinked.flush()
"""
IN_MEMORY = """
kept = bytearray(b"x") * (60 << 20)
open("/tmp/kept", "wb").write(bytes(20 << 20))
"""
HANDLES = "kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(100)]"


@asynccontextmanager
async def holding(image: TaskImage, code: str) -> AsyncIterator[None]:
    """A sandbox in which a program holds something."""
    box = await image.start(Phase.AGENT, limits=Limits(memory_mb=512, processes=64, disk_mb=256))
    ready = asyncio.Event()

    async def hear(_: bytes, __: str) -> None:
        ready.set()

    running = asyncio.create_task(python(box, HOLDS.format(code=textwrap.dedent(code)), sink=hear))
    try:
        async with asyncio.timeout(30):
            await ready.wait()
        yield
    finally:
        await box.close()
        await running


async def test_disk_of_several_sandboxes(image: TaskImage, state: State) -> None:
    held, device = Held(state), state.root.stat().st_dev
    before = held.on_disk(device)
    async with holding(image, ON_DISK), holding(image, ON_DISK):
        found = held.on_disk(device)
        assert 80 * MIB <= found.size - before.size < 90 * MIB
        assert found.count >= before.count + 2
        assert held.on_disk(device + 1).size - 40 * MIB < 10 * MIB  # whose disk the unlinked ones are on is not told
    assert held.on_disk(device).size <= before.size + MIB


async def test_memory_of_several_sandboxes(image: TaskImage, state: State) -> None:
    held = Held(state)
    before = held.memory()
    async with holding(image, IN_MEMORY), holding(image, IN_MEMORY):
        assert 160 * MIB <= held.memory() - before < 400 * MIB


async def test_open_files_of_several_sandboxes(image: TaskImage, state: State) -> None:
    held = Held(state)
    before = held.handles()
    async with holding(image, HANDLES), holding(image, HANDLES):
        assert 200 <= held.handles() - before < 1000
