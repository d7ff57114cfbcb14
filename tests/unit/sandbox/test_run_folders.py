"""What dead owners left is removed and nothing else; what cannot be removed stops neither its owner nor the others."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from lego_rl.owner import own_stamp
from lego_rl.sandbox import state as module
from lego_rl.sandbox.file_systems import file_system
from lego_rl.sandbox.state import NESTED, RunFolder, State

ELSEWHERE = "0123456789ab"


def dead_stamp() -> str:
    """Names an owner that is gone: no process of this id started then."""
    pid, started, *rest = own_stamp().split(".")
    return ".".join([pid, str(int(started) + 1), *rest])


def of_dead_owner(path: Path) -> Path:
    """Rename what this process made so that it is a dead owner's."""
    return path.rename(path.with_name(path.name.replace(own_stamp(), dead_stamp())))


def of_another_boot(path: Path) -> Path:
    boot = own_stamp().rpartition(".")[2]
    return path.rename(path.with_name(path.name.replace(boot, ELSEWHERE)))


def dead_run(state: State) -> RunFolder:
    return RunFolder(of_dead_owner(state.new_run().path))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


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
    assert names(state.runs) == {living.path.name, stuck.path.name}
    shutil.rmtree(busy)
    assert state.reap_stale() == [stuck.path.name]


def test_half_made_caches_go_with_their_owner(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    places = [state.root, state.pristine, state.toolchains, state.programs, state.root / "pools"]
    with ExitStack() as stack:
        ours = {stack.enter_context(state.building(place)) for place in places}
        left = set()
        for place in places:
            half_made = stack.enter_context(state.building(place))
            (half_made / "half").mkdir()
            left.add(of_dead_owner(half_made).name)
        assert set(state.reap_stale()) == left
        assert all(path.is_dir() for path in ours)


def test_what_names_no_owner_stays(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    dead = dead_run(state)
    (state.runs / "stray").write_text("a note")
    (state.runs / "link").symlink_to("nowhere")
    (state.runs / "folder").mkdir()
    (state.runs / dead.path.name[:-12]).mkdir()
    (state.runs / f"{dead.path.name}.txt").mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    (state.runs / f"{dead.path.name}x").symlink_to(linked)
    (state.pristine / "tree" / dead.path.name).mkdir(parents=True)  # a task's own, however it is called
    before = names(state.runs)
    assert state.reap_stale() == [dead.path.name]
    assert names(state.runs) == before - {dead.path.name}
    assert (state.pristine / "tree" / dead.path.name).is_dir()
    assert linked.is_dir()


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_an_owner_of_another_boot_is_dead_where_no_other_machine_can_be(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path / "state")
    folder = of_another_boot(state.new_run().path)
    monkeypatch.setattr(module, "file_system", lambda path: kind)
    assert state.reap_stale() == ([folder.name] if kind == "ext4" else [])


def test_the_kind_of_a_file_system_is_that_of_its_mount() -> None:
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(Path("/dev/null")) in {"devtmpfs", "tmpfs"}
    assert file_system(Path("/")) not in {"", "proc"}


def test_two_that_begin_at_once_remove_the_same_leftovers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = State(tmp_path / "state")
    for _ in range(20):
        folder = dead_run(state)
        for number in range(30):
            (folder.upper / f"folder{number}").mkdir()
            (folder.upper / f"folder{number}" / "file").touch()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: State(tmp_path / "state").reap_stale(), range(4)))
    assert list(state.runs.iterdir()) == []
    assert caplog.text == ""


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


def test_control_groups_of_a_state_folder_within_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(module, "remove_cgroup", removed.append)
    state = State(tmp_path / "state")
    with state.building(state.root, "selfcheck-") as made:
        dead, living = (State(made / NESTED).new_run() for _ in range(2))
        dead = RunFolder(of_dead_owner(dead.path))
        for run in (dead, living):
            run.cgroups.write_text(f"/sys/fs/cgroup/memory/{run.cgroup_name}")
        outer = of_dead_owner(made)
        assert state.reap_stale() == [outer.name]
    assert removed == [Path("/sys/fs/cgroup/memory", dead.cgroup_name)]
    assert not outer.exists()


def test_a_hostile_tree_of_a_dead_owner_is_removed_whole(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    run = dead_run(state)
    (run.upper / "file").write_text("linked")
    for number in range(2_000):
        (run.upper / f"link{number}").hardlink_to(run.upper / "file")
    place = os.open(run.upper, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1_200):
        os.mkdir("folder", 0o700, dir_fd=place)
        inner = os.open("folder", os.O_RDONLY | os.O_DIRECTORY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    for folder in (run.upper / "folder", run.report, run.upper):
        folder.chmod(0)
    assert state.reap_stale() == [run.path.name]
    assert names(state.runs) == set()
