"""Rows of both SWE-rebenches, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

import json

import pytest
from synthetic_rows import (
    Row,
    rebench,
    rebench_v2,
)

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def test_swe_rebench_brings_command_parser_and_variables() -> None:
    task = convert("swe-rebench", rebench())
    assert task.tests.parser == "swebench:parse_log_pytest"
    assert "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider tests/test_calc.py" in task.tests.command
    assert task.environment.docker_image == "swerebench/sweb.eval.x86_64.me_1776_calc-8"
    assert task.source is not None and task.source.licence == "MIT License"
    with pytest.raises(RowError, match=r"install_config\.log_parser"):
        convert("swe-rebench", rebench(install_config={"test_cmd": "pytest"}))
    config = {**rebench()["install_config"], "env_vars": {"A": "x", "B": None}}
    for given in (config, json.dumps(config)):
        command = convert("swe-rebench", rebench(install_config=given)).tests.command
        assert "export A=x\n" in command and "export B" not in command
    with pytest.raises(RowError, match="env_vars has the name"):
        convert("swe-rebench", rebench(install_config={**rebench()["install_config"], "env_vars": {"A;B": "x"}}))


def test_swe_rebench_v2_has_a_path_of_its_own_all_commands_and_names_without_times() -> None:
    task = convert("swe-rebench-v2", rebench_v2())
    assert task.environment.workdir == "/Calc-c"
    assert task.tests.command.index("./configure\n") < task.tests.command.index("make check\n")
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == (("tst_sum",), ("tst_zero",))
    assert task.tests.parser == "swebench-untimed:parse_log_jq"
    assert task.instruction.endswith("## Interface\n\nFunction: add(first, second)\n")
    assert task.source is not None and task.source.created_at == "2020-12-30T03:14:33+00:00"
    config = rebench_v2()["install_config"]
    with pytest.raises(RowError, match="parse_log_own is SWE-rebench V2's own"):
        convert("swe-rebench-v2", rebench_v2(install_config={**config, "log_parser": "parse_log_own"}))
    one = convert("swe-rebench-v2", rebench_v2(install_config={**config, "test_cmd": "make check"}))
    assert "\nmake check\n" in one.tests.command
    with pytest.raises(RowError, match="repo: "):
        convert("swe-rebench-v2", rebench_v2(repo="me/.."))
