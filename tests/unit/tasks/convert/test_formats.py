"""Every format, on SYNTHETIC rows of its documented schema: what the task is, and that nothing of the fix is in it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harbor.models.task.task import Task as HarborTask
from synthetic_rows import (
    FAILS,
    HIDDEN,
    MENDING,
    PASSES,
    ROWS,
    TREE,
    Row,
    classic,
    gym,
    openswe,
    present,
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


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".x", "a\0b", "", "x" * 300, "a b", "-rf", "é"])
@pytest.mark.parametrize("make", [classic, openswe, rebench, rebench_v2, gym, smith], ids=lambda make: make.__name__)
def test_an_id_that_is_no_name_of_a_directory_is_refused(make: Callable[..., Row], name: str) -> None:
    form = {
        "classic": "swebench", "rebench": "swe-rebench", "rebench_v2": "swe-rebench-v2", "gym": "swe-gym",
        "smith": "swe-smith", "openswe": "openswe",
    }[make.__name__]  # fmt: skip
    with pytest.raises(RowError):
        convert(form, make(instance_id=name))


def test_every_test_stands_once_in_a_list() -> None:
    task = convert("swebench", classic(FAIL_TO_PASS=[FAILS, FAILS], PASS_TO_PASS=[PASSES, PASSES]))
    assert (task.tests.fail_to_pass, task.tests.pass_to_pass) == ((FAILS,), (PASSES,))


def test_rows_tell_themselves_apart() -> None:
    first, again = convert("swebench", present()).source, convert("swebench", dict(reversed(present().items()))).source
    other = convert("swebench", present(hints_text="")).source
    assert first is not None and again is not None and other is not None
    assert first.is_of_same_row(again) and not first.is_of_same_row(other)
    assert first.is_of_same_instance(other)
