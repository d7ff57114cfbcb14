"""SWE-smith's rows, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

import pytest
from synthetic_rows import (
    BUG,
    Row,
    smith,
)

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def test_swe_smith_is_turned_round_and_shows_no_commit_without_the_bug() -> None:
    task = convert("swe-smith", smith())
    assert task.repo == "mewwts/addict"
    assert task.source is not None and task.source.repo == "swesmith/mewwts__addict.75284f95"
    assert task.environment.files["bug.patch"] == BUG.encode()
    recipe = task.environment.files["Dockerfile"].decode()
    assert recipe.startswith("FROM jyangballin/swesmith.x86_64.mewwts_1776_addict.75284f95\n")
    assert "rm /tmp/lego-bug.patch && rm -rf .git && git init" in recipe
    assert (task.base_commit, task.history, task.grading_history) == (None, "single-commit", "same")
    assert task.tests.patch is None and not task.tests.files
    assert "pytest --disable-warnings --color=no --tb=no --verbose tests/test_calc.py" in task.tests.command


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"repo": "mewwts/addict"}, "no mirror of SWE-smith's"),
        ({"repo": "swesmith/me__calc.01234567"}, "no test command of me__calc.01234567"),
        ({"repo": "swesmith/tornadoweb__tornado.d5ac65c1"}, "no test command of tornadoweb"),
        ({"FAIL_TO_PASS": ["src/calc.py::test_a"]}, "its bug lies in src/calc.py"),
        ({"patch": "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"}, "turned round"),
        ({"image_name": "x y"}, "image_name"),
    ],
)
def test_a_row_of_swe_smith_that_cannot_become_a_task(changes: Row, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("swe-smith", smith(**changes))


def test_a_row_with_a_thousand_test_files_runs_everything() -> None:
    many = [f"tests/{'d' * 80}/test_{number}.py::t" for number in range(1_500)]
    command = convert("swe-smith", smith(PASS_TO_PASS=many)).tests.command
    assert len(command) < 2_000 and "pytest --disable-warnings" in command
