"""R2E-Gym's rows, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

import json
from pathlib import Path

import pytest
from synthetic_rows import (
    Row,
    r2e,
)

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.task import Task


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def results(names: list[str], codes: list[str]) -> Row:
    return {"execution_result_content": json.dumps({"test_file_names": names, "test_file_codes": codes})}


def test_r2e_gym_is_a_commit_whose_lists_are_found_in_its_logs() -> None:
    task = convert("r2e-gym", r2e())
    assert task.id == f"calc__{'e' * 12}" and task.repo == "calc" and task.base_commit is None
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == (("test_hidden_sum",), ("T.test_zero",))
    assert task.tests.parser == "r2e-log"
    assert set(task.tests.files) == {"r2e_tests/test_1.py"}
    recipe = task.environment.files["Dockerfile"].decode()
    assert "rm -rf /r2e_tests r2e_tests" in recipe and ".git" in recipe
    assert "bash run_tests.sh" in task.tests.command
    assert task.history == "single-commit"


def test_r2e_gym_without_a_log_of_the_run_before_has_no_lists(tmp_path: Path) -> None:
    results = json.loads(r2e()["execution_result_content"]) | {"old_commit_res_stdout": "collected 0 items"}
    task = convert("r2e-gym", r2e(execution_result_content=json.dumps(results)))
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == ((), ())
    assert task.source is not None and "lists" in task.source.unmeasured
    Task.load_unlisted(task.write(tmp_path))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"expected_output_json": "{"}, "expected_output_json"),
        ({"execution_result_content": "[]"}, "execution_result_content"),
        (results(["a"], []), "1 names"),
        (results(["../../x"], [""]), "called"),
        (results(["a", "a/b"], ["", ""]), "called"),
        (results(["x" * 300], [""]), "called"),
        ({"repo_name": "a/../b"}, "name of a directory"),
        ({"commit_hash": "main"}, "commit_hash"),
        ({"docker_image": "x\nRUN y"}, "docker_image"),
    ],
)  # fmt: skip
def test_a_row_of_r2e_gym_that_cannot_become_a_task(changes: Row, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("r2e-gym", r2e(**changes))


def commit_of(**changes: object) -> str:
    commit = json.loads(r2e()["parsed_commit_content"])
    commit["file_diffs"][0] |= changes
    return json.dumps(commit)


def test_r2e_gym_without_a_commit_has_no_solution() -> None:
    assert convert("r2e-gym", r2e(parsed_commit_content="")).solution is None


@pytest.mark.parametrize(
    ("commit", "said"),
    [
        ("{", "parsed_commit_content"),
        (commit_of(header={"file": {"path": "../x"}}), "calls the file '../x' otherwise"),
        (commit_of(header={"file": {"path": "../x"}}, minus_file=None, plus_file=None), "leads out of the tree"),
        (commit_of(header={"file": {"path": "tests/test_calc.py"}}), "changes tests alone"),
        (commit_of(hunks=[]), "changes 'src/calc.py' in a way that is not in the row"),
        (json.dumps({"file_diffs": []}), "changes tests alone"),
    ],
)
def test_a_fix_of_r2e_gym_that_cannot_be_read_is_named(commit: str, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("r2e-gym", r2e(parsed_commit_content=commit))


def test_a_fix_of_r2e_gym_may_make_an_empty_file() -> None:
    file = {"header": {"file": {"path": "src/__init__.py"}}, "minus_file": {"path": "/dev/null"}, "hunks": []}
    commit = json.loads(r2e()["parsed_commit_content"])
    commit["file_diffs"].append(file)
    solution = convert("r2e-gym", r2e(parsed_commit_content=json.dumps(commit))).solution
    assert solution is not None and b"new file mode 100644\n--- /dev/null\n+++ b/src/__init__.py\n" in solution.patch
