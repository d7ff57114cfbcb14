"""What a sandbox leaves is removed, and holds nobody up."""

import asyncio
from pathlib import Path

import pytest
from sandbox_tools import shell

from lego_rl.sandbox import local
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State


async def test_very_many_files_hold_up_no_trial(
    state: State, task_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "REMOVE_SECONDS", 0.0)
    image = BubblewrapProvider(state).prepare(task_dir / "environment", workdir="/app")
    box = await image.start(Phase.AGENT)
    await shell(box, "mkdir many && cd many && touch $(seq 5000)")
    async with asyncio.timeout(60):
        await box.close()
        assert f"{box.run_folder.path} holds so much" in caplog.text
        while box.run_folder.path.exists():  # noqa: ASYNC110  # another thread is at it
            await asyncio.sleep(0.01)
