"""The writer of task directories: typed fields become files, whole or not at all, and no name leads out."""

import dataclasses
import hashlib
import multiprocessing
import os
import signal
import tomllib
from pathlib import Path

import pytest
from harbor.models.task.task import Task as HarborTask

from lego_rl.commands.rollout import OUTCOMES
from lego_rl.commands.tasks_validate import JOURNAL
from lego_rl.errors import TaskError
from lego_rl.owner import owned_folder
from lego_rl.tasks.convert.skipped import SKIPPED
from lego_rl.tasks.directory import EnvironmentPart, SolutionPart, TaskDirectory, TestsPart
from lego_rl.tasks.make.making import report_name
from lego_rl.tasks.provenance import Provenance
from lego_rl.tasks.staging import SCRATCH, remove_leftovers
from lego_rl.tasks.task import Task

COMMIT = "0" * 40
TASK = TaskDirectory(
    id="me__it-1",
    name="me/me__it-1",
    description="One bug",
    instruction="Mend it.\n",
    environment=EnvironmentPart("/testbed", docker_image="me/it:1", memory_mb=4096, storage_mb=8192),
    tests=TestsPart(
        ("tests/test_a.py::t",),
        (),
        "pytest -rA > $LEGO_REPORT",
        "pytest-log",
        "#!/bin/sh\n",
        files={"tests/test_a.py": b"def t():\n    assert 0\n"},
        env={"LANG": "C.UTF-8"},
        timeout_sec=1800.0,
    ),
    solution=SolutionPart(b"--- a/x\n+++ b/x\n", "#!/bin/sh\n"),
    repo="me/it",
    base_commit=COMMIT,
    history="single-commit",
    source=Provenance(format="mined", instance_id="me__it-1", unmeasured=("tests",)),
    agent_timeout_sec=600.0,
)


def test_what_is_written_is_read_again_by_us_and_by_harbor(tmp_path: Path) -> None:
    path = TASK.write(tmp_path)
    task = Task.load(path)
    assert (task.id, task.instruction, task.family, task.workdir) == ("me__it-1", "Mend it.\n", "me/it", "/testbed")
    assert (task.history.base_commit, task.history.agent) == (COMMIT, "single-commit")
    assert task.source == TASK.source
    assert task.test_env == {"LANG": "C.UTF-8"}
    stock = HarborTask(path)
    assert stock.name == "me/me__it-1"
    assert stock.config.environment.docker_image == "me/it:1"
    assert stock.config.environment.memory_mb == 4096
    assert HarborTask.is_valid_dir(path)
    assert os.access(path / "tests" / "test.sh", os.X_OK) and os.access(path / "solution" / "solve.sh", os.X_OK)
    assert [name.name for name in tmp_path.iterdir()] == ["me__it-1"]


def test_the_same_fields_give_the_same_bytes() -> None:
    digest = hashlib.sha256(repr(sorted(TASK.files().items())).encode())
    again = hashlib.sha256(repr(sorted(dataclasses.replace(TASK).files().items())).encode())
    assert digest.digest() == again.digest()


def test_text_with_quotes_and_newlines_stays_what_it_is(tmp_path: Path) -> None:
    hostile = 'x"]\n[environment]\nworkdir = "/etc'
    path = dataclasses.replace(TASK, description=hostile, repo=hostile).write(tmp_path)
    config = tomllib.loads((path / "task.toml").read_text())
    assert config["task"]["description"] == hostile and config["metadata"]["repo"] == hostile
    assert config["environment"]["workdir"] == "/testbed"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a\0b", "a b", "é", "a\n", "-a", "a" * 201])
def test_an_id_that_is_no_plain_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="cannot be the name of a directory"):
        dataclasses.replace(TASK, id=name).write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [SKIPPED, SKIPPED.upper(), f"{SKIPPED}.partial", JOURNAL, OUTCOMES, report_name("x"), "pool.parquet", "a.Json"],
)
def test_what_a_pool_calls_its_own_files_is_no_id(name: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="is the name of a file"):
        dataclasses.replace(TASK, id=name).write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["json", "nlohmann__json-1", "a.json-1", "x.jsonl.py", "a" * 200, "0"])
def test_an_id_may_hold_the_name_of_a_kind_of_file(name: str, tmp_path: Path) -> None:
    assert Task.load(dataclasses.replace(TASK, id=name).write(tmp_path)).id == name


@pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a\0", "a/" * 600 + "a"])
def test_a_path_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    for part in (
        {"tests": dataclasses.replace(TASK.tests, files={name: b""})},
        {"tests": dataclasses.replace(TASK.tests, support={name: b""})},
        {"environment": EnvironmentPart("/testbed", {name: b""})},
    ):
        with pytest.raises(TaskError, match="has a file called"):
            dataclasses.replace(TASK, **part).write(tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_hidden_tests_come_one_way(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="as files and as a patch"):
        dataclasses.replace(TASK, tests=dataclasses.replace(TASK.tests, patch=b"")).write(tmp_path)


def test_a_task_is_not_overwritten_but_replaced_on_request(tmp_path: Path) -> None:
    TASK.write(tmp_path)
    other = dataclasses.replace(TASK, instruction="Other.")
    with pytest.raises(TaskError, match="there is a task in"):
        other.write(tmp_path)
    assert Task.load(tmp_path / TASK.id).instruction == "Mend it.\n"
    assert Task.load(other.replace(tmp_path)).instruction == "Other."
    assert [path.name for path in tmp_path.iterdir()] == [TASK.id]


def _write_and_die(pool: Path) -> None:
    def die(_: Path, __: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Path.rename = die  # type: ignore[assignment, method-assign]
    TASK.write(pool)


def test_a_killed_writer_leaves_no_task_and_what_it_leaves_is_removed(tmp_path: Path) -> None:
    writer = multiprocessing.get_context("fork").Process(target=_write_and_die, args=(tmp_path,))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(SCRATCH)
    with owned_folder(tmp_path, SCRATCH) as working:
        remove_leftovers(tmp_path)
        assert list(tmp_path.iterdir()) == [working]
