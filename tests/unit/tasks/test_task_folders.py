"""Task directories: what is written, what Harbor and a shell make of it, and what is said about a broken one."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harbor.models.task.task import Task as HarborTask

from lego_rl.commands.tasks_validate import valid_index
from lego_rl.errors import TaskError
from lego_rl.tasks.build import build_pool, write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.generated_check import validate
from lego_rl.tasks.index.build import build_index
from lego_rl.tasks.index.ops import Unit, split
from lego_rl.tasks.pool import load_pool, pool_place
from lego_rl.tasks.task import Task

SMALL = {"train": 1, "heldout": 1, "unseen": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(generate(0, "comparison", 0), tmp_path / "pool")


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = build_pool(tmp_path / "a", sizes=SMALL)
    build_pool(tmp_path / "b", sizes=SMALL)
    assert len(first) == 8 + 8 + 2
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(TaskError, match="is not empty"):
        build_pool(tmp_path, sizes=SMALL)
    assert files(tmp_path) == {"mine": b"x"}


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300])
def test_a_place_that_cannot_be_written_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaskError, match="cannot write tasks into"):
        build_pool(tmp_path / name, sizes=SMALL)
    assert files(tmp_path) == {"file": b"x"}


def test_a_pool_that_another_process_finished_first_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(folder: Path) -> None:
        build_pool(folder, sizes=SMALL)
        build_pool(folder, sizes=SMALL)

    monkeypatch.setattr("lego_rl.tasks.pool.build_pool", slower)
    assert any(pool_place("builtin", tmp_path).iterdir())


def test_hidden_tests_and_the_solution_are_not_in_the_environment(folder: Path) -> None:
    task = Task.load(folder)
    shown = files(folder / "environment")
    assert not [name for name in shown if "test" in name]
    fixed = files(folder / "solution" / "files")
    assert len(fixed) == 1
    assert all(shown[f"repo/{name}"] != text for name, text in fixed.items())
    assert not any(name.encode() in b"".join(shown.values()) for name in task.tests.fail_to_pass)


def test_stock_harbor_reads_the_task(folder: Path) -> None:
    harbor = HarborTask(folder)
    assert harbor.config.environment.workdir == "/app"
    assert harbor.config.environment.network_mode.value == "no-network"
    assert harbor.config.metadata == {"grader": "tests", "family": "comparison", "split": "train"}
    assert harbor.instruction == Task.load(folder).instruction


def run_in_a_copy(folder: Path, workdir: Path, *, solved: bool) -> dict[str, bool]:
    """What the task's own command reports in a copy of the repository: test → passed."""
    shutil.copytree(folder / "environment" / "repo", workdir)
    shutil.copytree(folder / "tests" / "files", workdir, dirs_exist_ok=True)
    if solved:
        shutil.copytree(folder / "solution" / "files", workdir, dirs_exist_ok=True)
    report = workdir.with_suffix(".xml")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "LEGO_REPORT": str(report)}
    command = Task.load(folder).tests.command
    subprocess.run(["sh", "-c", command], cwd=workdir, env=environment, check=False, capture_output=True)
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}": not len(case) for case in cases}


def test_the_command_reports_what_the_specification_says(folder: Path, tmp_path: Path) -> None:
    tests = Task.load(folder).tests
    before = run_in_a_copy(folder, tmp_path / "before", solved=False)
    after = run_in_a_copy(folder, tmp_path / "after", solved=True)
    assert {test for test, passed in before.items() if not passed} == set(tests.fail_to_pass)
    assert {test for test, passed in before.items() if passed} == set(tests.pass_to_pass)
    assert set(after.values()) == {True}
    assert not list((tmp_path / "after").rglob("__pycache__"))


@pytest.mark.parametrize("name", ["pytest.py", "conftest.py", "tests/conftest.py", "sitecustomize.py", "pytest.ini"])
def test_no_file_of_the_work_directory_stands_in_for_the_runner(folder: Path, tmp_path: Path, name: str) -> None:
    planted = folder / "environment" / "repo" / name
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("raise SystemExit(0)\n" if name.endswith(".py") else "[pytest]\naddopts = --collect-only\n")
    before = run_in_a_copy(folder, tmp_path / "before", solved=False)
    assert {test for test, passed in before.items() if not passed} == set(Task.load(folder).tests.fail_to_pass)


@pytest.mark.parametrize("solved", [False, True])
def test_the_script_for_stock_harbor_writes_its_reward(folder: Path, tmp_path: Path, solved: bool) -> None:
    script = (folder / "tests" / "test.sh").read_text()
    script = re.sub(r'(?<=["\s])/(?=(?:app|tests|logs)\b)', f"{tmp_path}/", script)
    shutil.copytree(folder / "tests", tmp_path / "tests")
    shutil.copytree(folder / "environment" / "repo", tmp_path / "app")
    if solved:
        shutil.copytree(folder / "solution" / "files", tmp_path / "app", dirs_exist_ok=True)
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)
    assert (tmp_path / "logs/verifier/reward.txt").read_text() == f"{int(solved)}\n"


def test_gold_patch_and_solution_agree(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "environment" / "repo", tmp_path / "app")
    patch = (folder / "solution" / "gold.patch").read_bytes()
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "app", input=patch, check=True)
    assert files(tmp_path / "app") == files(folder / "environment" / "repo") | files(folder / "solution" / "files")


@pytest.mark.parametrize("missing", ["instruction.md", "environment", "tests/spec.json", "tests/files/{test}"])
def test_an_incomplete_task_says_what_is_missing(folder: Path, missing: str) -> None:
    path = folder / missing.format(test=Task.load(folder).tests.test_files[0])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(TaskError) as caught:
        load_pool(folder.parent)
    assert str(path.relative_to(folder)) in caught.value.problem
    assert caught.value.fix


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("task.toml", lambda text: text.replace("300.0", '"soon"'), "agent.timeout_sec"),
        ("task.toml", lambda text: text.replace("2048", "-1"), "environment.memory_mb"),
        ("task.toml", lambda text: text.replace('"/app"', '"app"'), "environment.workdir"),
        ("task.toml", lambda text: text + "[", "not valid TOML"),
        ("tests/spec.json", lambda text: text.replace("PASS_TO_PASS", "P2P"), "PASS_TO_PASS"),
        ("tests/spec.json", lambda text: json.dumps(json.loads(text) | {"FAIL_TO_PASS": []}), "no FAIL_TO_PASS"),
        ("tests/spec.json", lambda text: text[:-9], "not a test specification"),
        ("tests/spec.json", lambda text: "[" * 100_000, "not a test specification"),
    ],
)
def test_an_impossible_task_says_what_is_wrong(
    folder: Path, name: str, change: Callable[[str], str], said: str
) -> None:
    path = folder / name
    path.write_text(change(path.read_text()))
    with pytest.raises(TaskError, match=said):
        Task.load(folder)


def test_validation_tells_a_wrong_gold_patch_and_a_wrong_specification(folder: Path) -> None:
    validate(Task.load(folder))
    spec = folder / "tests" / "spec.json"
    right = spec.read_text()
    raw = json.loads(right)
    spec.write_text(
        json.dumps(raw | {"PASS_TO_PASS": raw["PASS_TO_PASS"] + raw["FAIL_TO_PASS"][:1], "FAIL_TO_PASS": ["x::y"]})
    )
    with pytest.raises(TaskError):
        validate(Task.load(folder))
    spec.write_text(right)
    (fixed,) = files(folder / "solution" / "files")
    shutil.copy(folder / "environment" / "repo" / fixed, folder / "solution" / "files" / fixed)
    with pytest.raises(TaskError, match="fails after the gold patch"):
        validate(Task.load(folder))


@pytest.mark.timeout(10)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder: Path) -> None:
    spec = folder / "tests" / "spec.json"
    spec.unlink()
    os.mkfifo(spec)
    with pytest.raises(TaskError, match="no regular file"):
        Task.load(folder)


def test_an_index_is_a_pool_and_says_which_split_a_task_is_of(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "index.parquet"
    index, _ = build_index([folder])
    index.write(file)
    assert pool_place(str(file), tmp_path) == file
    assert load_pool(file) == load_pool(folder.parent)
    split(index, {"mine": 1.0}, Unit.TASK, 0)["mine"].write(file)
    assert [(name, task.id, task.split) for name, (task,) in load_pool(file).items()] == [("mine", folder.name, "mine")]
    split(index, {"other": 1.0, "mine": 1e-9}, Unit.TASK, 0)["mine"].write(file)
    with pytest.raises(TaskError, match="holds no task"):
        load_pool(file)


def test_a_pool_is_the_same_tasks_to_everybody(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "pool" / "by-split" / "more" / "another-000")
    (tmp_path / "pool" / "notes").mkdir()
    (tmp_path / "pool" / "notes" / "what.txt").write_text("no task")
    index, _ = build_index([tmp_path / "pool"])
    (loaded,) = load_pool(tmp_path / "pool").values()
    assert [task.id for task in loaded] == [path.name for path in index.paths] == ["another-000", folder.name]
    shutil.copytree(folder, tmp_path / "pool" / "by-split" / folder.name)
    with pytest.raises(TaskError, match=f"are both called {folder.name}"):
        load_pool(tmp_path / "pool")


def test_a_task_that_is_named_by_itself_is_of_the_set_that_holds_it(folder: Path) -> None:
    for places in ([folder.parent], [folder]):
        index, _ = build_index(places)
        assert index.column("data_source").to_pylist() == ["pool"]
        assert valid_index(places, [folder.name]).column("data_source").to_pylist() == ["pool"]
    index, _ = build_index([folder], "mine")
    assert index.column("data_source").to_pylist() == ["mine"]


def test_an_unknown_pool_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no task pool"):
        pool_place(str(tmp_path / "none"), tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="holds no task"):
        load_pool(tmp_path / "empty")
    assert {split: [task.id for task in tasks] for split, tasks in load_pool(folder.parent).items()} == {
        "train": ["comparison-train-000"]
    }
