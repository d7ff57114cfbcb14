"""``lego-rl check sandbox`` starts a real sandbox, says what holds its limits, and leaves nothing."""

import re
import time
from pathlib import Path

import pytest

from lego_rl.commands import check
from lego_rl.errors import SandboxError
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain


async def test_it_says_what_a_sandbox_says_and_leaves_nothing(
    provider: Provider, state: State, toolchain: Toolchain, uid: int
) -> None:
    before = set(state.root.iterdir())
    started = time.monotonic()
    report = await provider.probe()
    assert time.monotonic() - started < 10
    assert report.memory == report.processes
    assert {path.name for path in set(state.root.iterdir()) - before} <= {"etc-1000", "programs", "runs", f"etc-{uid}"}
    assert not list(state.runs.iterdir())


async def test_a_state_folder_that_cannot_be_one(settings: SandboxSettings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match="cannot keep their files") as caught:
        await provider_of(settings.model_copy(update={"state": tmp_path / "file"})).probe()
    assert caught.value.fix == "set sandbox.state to a folder of your own"


def test_the_command(
    settings: SandboxSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if settings.docker.host is not None:
        monkeypatch.setenv("DOCKER_HOST", settings.docker.host)
    check.sandbox(settings.environment)
    said = capsys.readouterr().out
    assert "sandbox: one was started, sealed, used and removed here" in said
    assert re.search(r"memory is held by (cgroup-v2|cgroup-v1|rlimit), processes by (cgroup-v2|cgroup-v1|rlimit)", said)
    assert not list(State.default().runs.iterdir())
