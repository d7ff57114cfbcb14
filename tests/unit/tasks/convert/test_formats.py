"""Every format, on SYNTHETIC rows of its documented schema: what the task is, and that nothing of the fix is in it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harbor.models.task.task import Task as HarborTask
from synthetic_rows import (
    BUG,
    COMMIT,
    FAILS,
    GOLD,
    HIDDEN,
    MENDING,
    PASSES,
    ROWS,
    TREE,
    Row,
    classic,
    gym,
    multilingual,
    multimodal,
    openswe,
    present,
    r2e,
    rebench,
    rebench_v2,
    smith,
)

from lego_rl.errors import TaskError
from lego_rl.tasks.convert.registry import FORMATS, format_named
from lego_rl.tasks.convert.row import RowError
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.unified_diff import BaseFile, PatchedFile, apply_diff

FORMS = sorted(ROWS)
LISTED = sorted(set(ROWS) - {"openswe"})


def convert(form: str, row: Row) -> TaskDirectory:
    return format_named(form).convert(row)


def results(names: list[str], codes: list[str]) -> Row:
    return {"execution_result_content": json.dumps({"test_file_names": names, "test_file_codes": codes})}


def applied(patch: bytes) -> list[PatchedFile]:
    return apply_diff(patch, lambda path: BaseFile(TREE[path]) if path in TREE else None)


def test_every_format_has_a_row_here() -> None:
    assert set(FORMS) == set(FORMATS)
    assert all(form.summary for form in FORMATS.values())
    with pytest.raises(TaskError, match="use one of swebench, openswe"):
        format_named("swe-bench")


@pytest.mark.parametrize("form", FORMS)
def test_a_converted_task_loads_here_and_in_stock_harbor(form: str, tmp_path: Path) -> None:
    path = convert(form, ROWS[form]).write(tmp_path)
    task = Task.load_unlisted(path)
    stock = HarborTask(path)
    assert HarborTask.is_valid_dir(path)
    assert stock.name == f"{form}/{task.id}"
    assert stock.config.environment.workdir == task.workdir
    assert bool(stock.config.environment.docker_image) != (path / "environment" / "Dockerfile").is_file()
    assert task.source is not None
    assert (task.source.format, "tests" in task.source.unmeasured) == (form, True)
    assert task.instruction == stock.instruction
    assert "\r" not in (path / "instruction.md").read_bytes().decode()
    assert task.instruction.startswith('add() subtracts\n\nadd(1, 2) is -1, it\'s "wrong".\n')
    assert isinstance(task.tests, TestSpec)
    assert task.tests.command.count("$LEGO_REPORT") >= 1


@pytest.mark.parametrize("form", LISTED)
def test_a_task_with_lists_is_complete(form: str, tmp_path: Path) -> None:
    task = Task.load(convert(form, ROWS[form]).write(tmp_path))
    assert isinstance(task.tests, TestSpec) and task.tests.fail_to_pass


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_the_fix_the_tests_or_the_hints_is_where_an_agent_could_see_it(form: str) -> None:
    task = convert(form, ROWS[form])
    # A bug can only be made by the patch that makes it; the recipe of the environment uses and removes it.
    shown = {name: text for name, text in task.environment.files.items() if name != "bug.patch"}
    text = "\n".join([task.instruction, task.description, *map(bytes.decode, shown.values())])
    for secret in (MENDING, "hidden_sum", "LEAK", "HINT", "first + second"):
        assert secret not in text, secret


@pytest.mark.parametrize("form", FORMS)
def test_the_solution_mends_what_the_task_has(form: str) -> None:
    task = convert(form, ROWS[form])
    assert task.solution is not None
    (mended,) = applied(task.solution.patch)
    assert mended.content == b"def add(first, second):\n    return first + second  " + MENDING.encode() + b"\n"


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"r2e-gym", "swe-smith"}))
def test_hidden_tests_are_the_test_patch_of_the_work_tree(form: str) -> None:
    tests = convert(form, ROWS[form]).tests
    assert tests.patch == HIDDEN.encode() and tests.patched == ("tests/test_calc.py",)
    (made,) = applied(tests.patch)
    assert made.content is not None and b"test_hidden_sum" in made.content


@pytest.mark.parametrize("form", FORMS)
def test_a_command_changes_no_tree_and_ends_with_the_status_of_the_tests(form: str) -> None:
    command = convert(form, ROWS[form]).tests.command
    for word in ("git apply", "git checkout", "git show", MENDING, "test_hidden_sum_of", "EOF"):
        assert word not in command, word
    assert 'exit "$' in command


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


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".x", "a\0b", "", "x" * 300, "a b", "-rf", "é"])
@pytest.mark.parametrize("make", [classic, openswe, rebench, rebench_v2, gym, smith], ids=lambda make: make.__name__)
def test_an_id_that_is_no_name_of_a_directory_is_refused(make: Callable[..., Row], name: str) -> None:
    form = {
        "classic": "swebench", "rebench": "swe-rebench", "rebench_v2": "swe-rebench-v2", "gym": "swe-gym",
        "smith": "swe-smith", "openswe": "openswe",
    }[make.__name__]  # fmt: skip
    with pytest.raises(RowError):
        convert(form, make(instance_id=name))


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
    ],
)
def test_a_row_of_openswe_that_cannot_become_a_task(changes: Row, said: str) -> None:
    with pytest.raises(RowError, match=said):
        convert("openswe", openswe(**changes))


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
    with pytest.raises(RowError, match=r"called 'me/\.\.'"):
        convert("swe-rebench-v2", rebench_v2(repo="me/.."))


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


def test_every_test_stands_once_in_a_list() -> None:
    task = convert("swebench", classic(FAIL_TO_PASS=[FAILS, FAILS], PASS_TO_PASS=[PASSES, PASSES]))
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == ((FAILS,), (PASSES,))


def test_rows_tell_themselves_apart() -> None:
    first, again = convert("swebench", present()).source, convert("swebench", dict(reversed(present().items()))).source
    other = convert("swebench", present(hints_text="")).source
    assert first is not None and again is not None and other is not None
    assert first.is_of_same_row(again) and not first.is_of_same_row(other)
    assert first.is_of_same_instance(other)
