"""Descriptors that a sandbox leaves on their way count against its user, which this process may be too."""

import asyncio
import resource
from collections.abc import Iterator

import pytest

from lego_rl.sandbox.open_files import ENOUGH
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Phase

FLOOD = """
import array, os, socket, sys, time
file, kept = os.open("/dev/null", os.O_RDONLY), []
try:
    while True:
        kept += socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        kept[-2].setblocking(False)
        for _ in range(8):
            kept[-2].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file] * 250))])
except OSError:
    print("as many as can be", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def few_files() -> Iterator[None]:
    """As a login shell gives them."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
async def test_one_sandbox_does_not_keep_the_host_from_talking_to_another(image: TaskImage) -> None:
    hostile = await image.start(Phase.AGENT)
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == min(ENOUGH, hard), "the limit is the shell's, and a request carries descriptors"
        said = asyncio.Event()

        async def hear(piece: bytes, stream: str) -> None:
            said.set()

        flood = asyncio.create_task(hostile.exec(["python3", "-c", FLOOD], timeout_sec=60, sink=hear))
        await asyncio.wait_for(said.wait(), 30)
        honest = await image.start(Phase.GRADING)
        try:
            await honest.put("/app", [Record("new.txt", "file", b"new")])
            done = await honest.exec(["sh", "-c", "cat new.txt; ulimit -Hn"], timeout_sec=30)
            assert (done.stdout, done.died) == (f"new{min(4096, hard // 4)}\n", False)
            (await honest.listen(8100)).close()
        finally:
            await honest.close()
        assert not flood.done()
        flood.cancel()
        await asyncio.wait({flood})
    finally:
        await hostile.close()
