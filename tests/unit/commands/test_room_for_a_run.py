"""A run that this machine has no room for is refused before it begins, by the limits of its own tasks."""

from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl.commands.policies import read_recipe
from lego_rl.commands.recipe_check import room_for
from lego_rl.errors import SandboxError
from lego_rl.sandbox import room
from lego_rl.tasks.task import Task, TestScript
from lego_rl.train.loop_tasks import LoopTasks

RECIPE = Path(__file__).parents[3] / "recipes" / "demo-claude-code.toml"


def test_the_largest_task_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _: 8000 << 20)
    small = Task("a", tmp_path, "", "a", "/app", TestScript(), 1.0, 10, storage_mb=100)
    unset = replace(small, storage_mb=None)
    overrides = ["rollout.concurrency=4", f"sandbox.state={tmp_path}", "sandbox.disk_mb=1000"]
    recipe = read_recipe(RECIPE, overrides)
    assert room_for(recipe, LoopTasks([small], {"heldout": [unset]}).every) is None
    large = replace(small, storage_mb=1001)
    for tasks in (LoopTasks([small, large], {}), LoopTasks([small], {"heldout": [large]})):
        with pytest.raises(SandboxError, match="4 trials at once may write"):
            room_for(recipe, tasks.every)
