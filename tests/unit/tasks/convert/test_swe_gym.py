"""SWE-Gym's rows, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

import pytest
from synthetic_rows import (
    HIDDEN,
    Row,
    gym,
)

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def test_swe_gym_has_a_rule_of_its_own_for_images_and_eleven_repositories() -> None:
    task = convert("swe-gym", gym(repo="getmoto/Moto"))
    assert task.environment.docker_image == "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-9999:latest"
    assert "pytest -n0 -rA tests/test_calc.py" in task.tests.command
    with pytest.raises(RowError, match="nobody here knows how me/calc is tested"):
        convert("swe-gym", gym(repo="me/calc"))


def test_mypy_is_tested_by_cases() -> None:
    cases = HIDDEN.replace("def test_hidden_sum_of_one_and_two():", "[case testOne]").replace(
        "    assert add(1, 2) == 3", "[case testTwo-skip]"
    )
    task = convert("swe-gym", gym(repo="python/mypy", instance_id="python__mypy-1", test_patch=cases))
    assert "pytest -n0 -rA -k '\"'\"'testOne or testTwo'\"'\"'" in task.tests.command
    with pytest.raises(RowError, match="names no case"):
        convert("swe-gym", gym(repo="python/mypy"))
