"""SWE-bench's rows, of both schemas, SYNTHETIC, of their documented schema: what the task is, and which are refused."""

import json

import pytest
from synthetic_rows import (
    COMMIT,
    FAILS,
    GOLD,
    HIDDEN,
    PASSES,
    Row,
    classic,
    multilingual,
    multimodal,
    present,
)

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def test_the_present_schema_of_swe_bench() -> None:
    task = convert("swebench", present())
    assert (task.id, task.repo, task.base_commit) == ("pallets__flask-9999", "pallets/flask", COMMIT)
    assert task.environment.docker_image == "swebench/sweb.eval.x86_64.pallets_1776_flask-9999:latest"
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == ((FAILS,), (PASSES,))
    assert task.tests.parser == "swebench:parse_log_flask"
    assert "pytest -rA tests/test_calc.py" in task.tests.command
    assert "pip install --no-build-isolation --no-deps -e ." in task.tests.command


def test_the_classic_schema_of_swe_bench_takes_command_and_parser_from_the_tables() -> None:
    task = convert("swebench", classic())
    assert task.tests.parser == "swebench:parse_log_pytest"
    assert "pytest -rA tests/test_calc.py\n" in task.tests.command
    assert task.environment.docker_image == "swebench/sweb.eval.x86_64.pallets_1776_flask-9999:latest"
    django = convert("swebench", classic(repo="django/django", instance_id="django__django-1", version="3.0"))
    assert "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 test_calc\n" in django.tests.command
    assert "export LANG=en_US.UTF-8" in django.tests.command


def _diff(path: str, before: str, after: str, hunk: str) -> str:
    return f"diff --git a/{path} b/{path}\n--- {before}\n+++ {after}\n{hunk}"


def test_django_modules_and_data_files() -> None:
    hidden = HIDDEN.replace("tests/test_calc.py", "tests/admin_views/tests.py")
    data = _diff("tests/x.json", "/dev/null", "b/tests/x.json", "@@ -0,0 +1 @@\n+1\n")
    gone = _diff("tests/o.py", "a/tests/o.py", "/dev/null", "@@ -1 +0,0 @@\n-1\n")
    row = classic(repo="django/django", version="3.0", test_patch=hidden + data + gone)
    command = convert("swebench", row).tests.command
    assert "--parallel 1 admin_views.tests\n" in command
    only_data = classic(test_patch=data)
    with pytest.raises(RowError, match="leaves no test file"):
        convert("swebench", only_data)


def test_a_file_name_is_one_word_of_a_command() -> None:
    hidden = HIDDEN.replace("tests/test_calc.py", "tests/a;touch x.py")
    command = convert("swebench", classic(test_patch=hidden)).tests.command
    assert "pytest -rA '\"'\"'tests/a;touch x.py'\"'\"'\n" in command


def test_nothing_has_to_keep_passing() -> None:
    assert convert("swebench", classic(PASS_TO_PASS="[]")).tests.pass_to_pass == ()


def test_multilingual_lists_are_lists() -> None:
    task = convert("swebench", multilingual())
    assert task.tests.fail_to_pass == ("TestColorForStatus",)
    assert task.tests.parser == "swebench:parse_log_gotest"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (multimodal(), "SWE-bench Multimodal"),
        (present(eval_type="fail_only"), "SWE-bench Multimodal"),
        (present(eval_type="other"), "no eval_type 'other'"),
        (present(log_parser=""), "no log_parser"),
        (present(log_parser="parse_log_next"), "no log parser parse_log_next"),
        (present(log_parser="__import__"), "no log parser __import__"),
        (classic(version="99"), "no test command of pallets/flask 99"),
        (classic(repo="me/unknown"), "no test command of me/unknown"),
        (classic(FAIL_TO_PASS="[]"), "FAIL_TO_PASS is empty"),
        (classic(FAIL_TO_PASS="[not json"), "FAIL_TO_PASS: .* neither a list"),
        (classic(FAIL_TO_PASS=[1]), "FAIL_TO_PASS"),
        (classic(PASS_TO_PASS=json.dumps([FAILS])), "in FAIL_TO_PASS and in PASS_TO_PASS"),
        (classic(base_commit="HEAD"), "base_commit"),
        (classic(base_commit="$(reboot)"), "base_commit"),
        ({name: value for name, value in classic().items() if name != "PASS_TO_PASS"}, "it has no PASS_TO_PASS"),
        (classic(PASS_TO_PASS=None), "it has no PASS_TO_PASS"),
        (classic(repo="../.."), "repo"),
        (classic(repo="a/.."), "repo"),
        (classic(repo="./b"), "repo"),
        (classic(repo="flask"), "repo"),
        (classic(repo="a/b;c"), "repo"),
        (classic(patch=""), "patch"),
        (classic(patch="nothing"), "its patch names no file"),
        (classic(test_patch=HIDDEN.replace("tests/test_calc.py", "../x.py")), "its test_patch leads out of the tree"),
        (classic(patch=GOLD.replace("src/calc.py", ".git/config")), "its patch changes a git directory"),
        (classic(problem_statement=" \n "), "its issue has"),
        (classic(problem_statement="a\0b"), "null character"),
        (classic(problem_statement="\ud800"), "problem_statement.*unicode"),
        (present(image="a b; c"), "names no container image"),
        (present(image="x\nRUN evil"), "names no container image"),
        (present(eval_script=["x"]), "eval_script"),
        (present(eval_script=present()["eval_script"] + "x\n" * 100_000), "no command can"),
        (present(eval_script="cat <<'E'\nnever ends\n"), "here-document without its end"),
        (present(eval_script="cat > src/calc.py <<'E'\nfixed\nE\npytest\n"), "writes src/calc.py"),
        ({}, "instance_id: Field required"),
    ],
)  # fmt: skip
def test_a_row_of_swe_bench_that_cannot_become_a_task_is_refused_by_name(row: Row, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("swebench", row)
