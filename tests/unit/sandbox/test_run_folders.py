"""Run folders of dead owners are removed; one that cannot be removed stops neither its owner nor the others."""

import shutil
from pathlib import Path

import pytest

from lego_rl.sandbox.state import RunFolder, State


def dead_run(state: State) -> RunFolder:
    """A run folder whose owner is gone: no process of this id has that start time."""
    folder = state.new_run()
    pid, started, namespace = folder.owner.read_text().split()
    folder.owner.write_text(f"{pid} {int(started) + 1} {namespace}")
    return folder


def test_one_that_cannot_be_removed_does_not_keep_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = State(tmp_path / "state")
    busy = tmp_path / "busy"  # To remove a folder that is not empty fails like a control group that is still in use.
    (busy / "child").mkdir(parents=True)
    (busy / "cgroup.procs").touch()
    living, stuck, *others = state.new_run(), *(dead_run(state) for _ in range(4))
    stuck.cgroups.write_text(str(busy))
    assert set(state.reap_stale()) == {other.path.name for other in others}
    assert str(stuck.path) in caplog.text
    assert {path.name for path in state.runs.iterdir()} == {living.path.name, stuck.path.name}
    shutil.rmtree(busy)
    assert state.reap_stale() == [stuck.path.name]
