"""OpenSWE's rows, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

from pathlib import Path

import pytest
from synthetic_rows import (
    COMMIT,
    MENDING,
    Row,
    openswe,
)

from lego_rl.errors import TaskError
from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.task import Task


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def test_openswe_loses_every_patch_that_its_script_applies() -> None:
    tests = convert("openswe", openswe()).tests
    assert tests.parser == "pytest-log" and not tests.fail_to_pass
    assert "export PYTEST_ADDOPTS=-rA" in tests.command
    assert "pytest --no-header tests/test_calc.py" in tests.command
    assert "OPENSWE_EXIT_CODE=" in tests.command
    assert "first + second" not in tests.command and "diff --git" not in tests.command


def test_openswe_says_that_which_tests_decide_is_unknown(tmp_path: Path) -> None:
    path = convert("openswe", openswe()).write(tmp_path)
    with pytest.raises(TaskError, match="tasks validate --record"):
        Task.load(path)
    source = Task.load_unlisted(path).source
    assert source is not None and source.unmeasured == ("image", "tests", "lists")


def test_the_recipe_of_openswe_starts_from_what_can_be_had() -> None:
    recipe = convert("openswe", openswe()).environment.files["Dockerfile"].decode()
    assert recipe.startswith("FROM continuumio/miniconda3:25.3.1-1\nRUN conda create -n testbed python=3.11 -y ")
    assert f"git clone https://github.com/me/calc.git /testbed && cd /testbed && git checkout -q {COMMIT} " in recipe
    assert "COPY" not in recipe and recipe.endswith("pip install -e .\n")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Dockerfile": ""}, "no Dockerfile"),
        ({"Dockerfile": "FROM python:3.12\nCOPY repo /testbed\n"}, "something else than openswe-python"),
        ({"Dockerfile": openswe()["Dockerfile"] + "COPY fix.patch /x\n"}, "copies 'fix.patch /x'"),
        ({"Dockerfile": openswe()["Dockerfile"] + "ADD https://x /y\n"}, "copies 'https://x /y'"),
        ({"Dockerfile": openswe()["Dockerfile"].replace("COPY repo /testbed\n", "")}, "copies 'nothing'"),
        ({"Dockerfile": openswe()["Dockerfile"] + f"RUN echo 'return first + second  {MENDING}'\n"}, "holds a line"),
        ({"patch": ""}, "patch"),
        ({"eval_script": ""}, "eval_script"),
        ({"FAIL_TO_PASS": ["tests/test_calc.py::test_sum"], "PASS_TO_PASS": None}, "it has no PASS_TO_PASS"),
    ],
)
def test_a_row_of_openswe_that_cannot_become_a_task(changes: Row, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("openswe", openswe(**changes))


@pytest.mark.parametrize("left", [{}, {"patch": None, "test_patch": None}, {"patch": "", "test_patch": ""}])
def test_a_row_without_patches_is_refused_by_the_name_of_its_file(left: Row) -> None:
    row = {key: value for key, value in openswe().items() if key not in ("patch", "test_patch")} | left
    with pytest.raises(RowError, match=r"has neither a patch nor a test_patch, as rows of openswe_other\.jsonl"):
        convert("openswe", row)
