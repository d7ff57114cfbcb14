"""A sandbox that does not come to be leaves nothing, and says so in two lines."""

import asyncio
import os
import signal
from typing import Any

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap import launch
from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.processes import descendants
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """The process chains that were started."""
    started: list[asyncio.subprocess.Process] = []
    spawn = launch._spawn

    async def keep(*arguments: Any) -> asyncio.subprocess.Process:
        started.append(await spawn(*arguments))
        return started[-1]

    monkeypatch.setattr(launch, "_spawn", keep)
    return started


async def test_one_that_is_not_ready_in_time_is_gone_when_the_error_comes(
    bubblewrapped: BubblewrapImage,
    state: State,
    chains: list[asyncio.subprocess.Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never_ready(_: Channel) -> bool:
        return await asyncio.Event().wait()

    monkeypatch.setattr(launch, "START_SECONDS", 0.2)
    monkeypatch.setattr(Channel, "ready", never_ready)
    with pytest.raises(SandboxError, match="not ready after"):
        await bubblewrapped.start(Phase.AGENT)
    assert [chain.returncode for chain in chains] == [-signal.SIGKILL]
    assert not list(state.runs.iterdir())


async def test_one_that_ends_as_soon_as_it_is_ready(
    bubblewrapped: BubblewrapImage,
    state: State,
    chains: list[asyncio.subprocess.Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = Channel.ready

    async def ready_and_killed(channel: Channel) -> bool:
        answered = await ready(channel)
        for process in descendants(chains[0].pid)[1:]:
            os.kill(process, signal.SIGKILL)
        await chains[0].wait()
        return answered

    monkeypatch.setattr(Channel, "ready", ready_and_killed)
    with pytest.raises(SandboxError, match="as soon as it was ready") as error:
        await bubblewrapped.start(Phase.AGENT)
    assert error.value.fix
    assert not list(state.runs.iterdir())
