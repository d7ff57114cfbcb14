"""Why a grading sandbox was not built: what agents of other trials can bring about is told apart."""

import errno
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox import grading
from lego_rl.sandbox.grading import GradingHinderedError, GradingStartError, _Run, _started
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.pressure import Pressure

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def not_ready(kind: type[SandboxError] = SandboxError) -> SandboxError:
    error = kind("it was not ready after 30 s", "start fewer at once")
    error.__cause__ = TimeoutError()
    return error


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(grading, "START_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(grading, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(grading, "PATIENT_PAUSE", 0.01)
    yield


async def start(*errors: Exception | str) -> int:
    """How many tries it takes; the last error stays."""
    tries = 0

    async def begin(*_: Any, **__: Any) -> str:
        nonlocal tries
        error = errors[min(tries, len(errors) - 1)]
        tries += 1
        if isinstance(error, Exception):
            raise error
        return error

    image: Any = SimpleNamespace(start=begin)
    task: Any = SimpleNamespace(network=None)
    await _started(image, Limits(), task, _Run([], {}))
    return tries


@pytest.mark.parametrize("error", [FULL, not_ready()])
async def test_what_agents_can_bring_about(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(Pressure, "was_low", lambda _: False)
    assert await start(*[error] * 5, "a sandbox") == 6
    with pytest.raises(GradingHinderedError):
        await start(error)


@pytest.mark.parametrize("error", [FileNotFoundError("bwrap"), not_ready(), SandboxError("no image", "")])
async def test_what_none_can_on_a_machine_that_is_not_busy(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(Pressure, "was_low", lambda _: True)
    assert await start(error, error, "a sandbox") == 3
    with pytest.raises(GradingStartError):
        await start(error, error, error, "a sandbox")


async def test_pods_have_their_own_share_of_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pressure, "was_low", lambda _: False)
    with pytest.raises(GradingStartError):
        await start(not_ready(ClusterError))


async def test_a_kill_for_memory_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    kills = iter(range(10**6))
    monkeypatch.setattr(grading, "oom_kills", lambda: next(kills))
    with pytest.raises(GradingHinderedError):
        await start(SandboxError("a sandbox could not be built: it printed nothing", ""))
