"""Run folders of dead owners are removed; one that cannot be removed stops neither its owner nor the others."""

import shutil
import subprocess
import sys
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
    living, stuck, *others = state.new_run(), *(dead_run(state) for _ in range(4))
    # To remove a folder that is not empty fails like a control group that is still in use.
    busy = tmp_path / stuck.cgroup_name
    (busy / "child").mkdir(parents=True)
    (busy / "cgroup.procs").touch()
    stuck.cgroups.write_text(str(busy))
    assert set(state.reap_stale()) == {other.path.name for other in others}
    assert str(stuck.path) in caplog.text
    assert {path.name for path in state.runs.iterdir()} == {living.path.name, stuck.path.name}
    shutil.rmtree(busy)
    assert state.reap_stale() == [stuck.path.name]


@pytest.mark.parametrize("keep", range(0, 40, 3))
def test_a_stamp_that_was_cut_short_names_no_dead_owner(tmp_path: Path, keep: int) -> None:
    state = State(tmp_path / "state")
    folder = state.new_run()
    folder.owner.write_text(folder.owner.read_text()[:keep])
    assert state.reap_stale() == []


@pytest.mark.parametrize("stamp", [b"", b"\xff\xfe 1 2", b"a b c", b"-1 5 pid:[1]", b"1 2", b"1 2 3 4"])
def test_what_is_no_stamp_and_what_is_no_folder_stay(tmp_path: Path, stamp: bytes) -> None:
    state = State(tmp_path / "state")
    odd, dead = state.new_run(), dead_run(state)
    odd.owner.write_bytes(stamp)
    (state.runs / "stray").write_text("a note")
    (state.runs / "link").symlink_to("nowhere")
    assert state.reap_stale() == [dead.path.name]
    assert {path.name for path in state.runs.iterdir()} == {odd.path.name, "stray", "link"}


NAMED = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe", 0, 0, 0)
print("named", flush=True)
time.sleep(60)
"""


def test_an_owner_id_that_is_used_again_by_a_process_whose_name_is_no_text(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    folder = dead_run(state)
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", NAMED], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        _, started, namespace = folder.owner.read_text().split()
        folder.owner.write_text(f"{process.pid} {started} {namespace}")
        assert state.reap_stale() == [folder.path.name]
        process.kill()


def test_a_list_of_groups_that_was_cut_short_costs_no_process_of_another_group(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    folder = dead_run(state)
    parent = tmp_path / "parent"
    parent.mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        (parent / "cgroup.procs").write_text(f"{process.pid}\n")
        folder.cgroups.write_text(str(parent))
        assert state.reap_stale() == [folder.path.name]
        assert process.poll() is None
        process.kill()
    assert parent.is_dir()
