"""``lego-rl bench sandbox`` at a small size: real sandboxes, the figures asked for, and none where something is off."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lego_rl.bench import sandbox
from lego_rl.bench.sandbox import STEPS, SandboxBench, trial
from lego_rl.bench.sandbox_task import WORKDIR, TaskSize, write_task
from lego_rl.errors import RunError, SandboxError
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.state import State

SIZE = TaskSize(files=100, commits=5)


class Absent(BubblewrapProvider):
    """A way to isolate whose daemon does not run."""

    def check(self) -> None:
        raise SandboxError("no daemon answers", "start one")


def measured(providers: dict[str, Provider], said: list[str]) -> dict[str, Any]:
    return asyncio.run(SandboxBench(SIZE, trials=6, concurrency=3, progress=said.append).run(providers))


def test_figures_of_real_sandboxes_beside_one_that_is_not_here(tmp_path: Path) -> None:
    state, said = State(tmp_path / "state"), list[str]()
    figures = measured({"bubblewrap": BubblewrapProvider(state), "docker": Absent(state)}, said)
    assert (figures["trials"], figures["concurrency"]) == (6, 3)
    assert (figures["files"], figures["commits"]) == (SIZE.files, SIZE.commits)
    assert figures["docker"] == {"unavailable": "no daemon answers", "fix": "start one"}
    here = figures["bubblewrap"]
    assert 0 < here["overhead_p50_s"] <= here["overhead_p95_s"]
    assert set(here["steps_p50_s"]) == set(STEPS)
    assert all(seconds > 0 for seconds in here["steps_p50_s"].values())
    assert 0 < here["cpu_s"] < 6
    assert here["prepare_s"] > 0
    assert list(state.runs.iterdir()) == []
    assert sum("of 6" in line for line in said) == 6
    assert "docker: not here: no daemon answers" in said


@pytest.mark.parametrize("change", [["touch src/one-more.py"], []])
def test_no_figures_of_a_change_that_was_not_found(
    change: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CHANGE", "; ".join([*change, sandbox.CHANGE] if change else ["true"]))
    state = State(tmp_path / "state")
    task = write_task(tmp_path / "task", SIZE)
    image = BubblewrapProvider(state).prepare(task.path / "environment", workdir=WORKDIR)
    with pytest.raises(RunError, match="9 paths were changed"):
        asyncio.run(trial(task, image))
    assert list(state.runs.iterdir()) == [], "both sandboxes are gone"
