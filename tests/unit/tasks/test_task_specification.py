"""``tests/spec.json``: what would make every trial of a task fail is refused when the task is read."""

import json
from pathlib import Path

import pytest

from lego_rl.errors import TaskError
from lego_rl.messages import Json
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.task import Task


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"FAIL_TO_PASS": '["tests/test_a.py::test_a"]'}, "FAIL_TO_PASS"),  # as some data sets keep their lists
        ({"PASS_TO_PASS": "tests/test_a.py::test_a"}, "PASS_TO_PASS"),
        ({"PASS_TO_PASS": [""]}, "PASS_TO_PASS"),
        ({"test_files": "tests/test_a.py"}, "test_files"),
        ({"test_files": ["../spec.json"]}, "below the work directory"),
        ({"test_files": ["/etc/passwd"]}, "below the work directory"),
        ({"test_files": ["x" * 5_000]}, "longer than the path of a file"),
        ({"test_files": ["x/" * 2_000 + "x"]}, "longer than the path of a file"),
        ({"command": ["pytest"]}, "command"),
        ({"command": ""}, "command"),
        ({"parser": None}, "parser"),
        ({"parser": "pytest-junti"}, "use one of pytest-junit"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(tmp_path: Path, changed: dict[str, Json], said: str) -> None:
    folder = write_task(generate(0, "comparison", 0), tmp_path)
    path = folder / "tests" / "spec.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(TaskError, match=said):
        Task.load(folder)


@pytest.mark.parametrize("content", ["[]", "null", '"x"'])
def test_another_document_is_no_specification(tmp_path: Path, content: str) -> None:
    folder = write_task(generate(0, "comparison", 0), tmp_path)
    (folder / "tests" / "spec.json").write_text(content)
    with pytest.raises(TaskError, match="not a test specification"):
        Task.load(folder)


def test_a_test_is_on_one_side(tmp_path: Path) -> None:
    folder = write_task(generate(0, "comparison", 0), tmp_path)
    path = folder / "tests" / "spec.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"PASS_TO_PASS": [*raw["PASS_TO_PASS"], raw["FAIL_TO_PASS"][0]]}))
    with pytest.raises(TaskError, match="in FAIL_TO_PASS and in PASS_TO_PASS"):
        Task.load(folder)


def test_two_tests_that_a_report_cannot_tell_apart(tmp_path: Path) -> None:
    folder = write_task(generate(0, "comparison", 0), tmp_path)
    path = folder / "tests" / "spec.json"
    raw = json.loads(path.read_text())
    file, _, name = raw["FAIL_TO_PASS"][0].partition("::")
    alike = f"{file.replace('/', '.')}::{name}"
    assert alike != raw["FAIL_TO_PASS"][0]
    path.write_text(json.dumps(raw | {"PASS_TO_PASS": [*raw["PASS_TO_PASS"], alike]}))
    with pytest.raises(TaskError, match="a report cannot tell"):
        Task.load(folder)
