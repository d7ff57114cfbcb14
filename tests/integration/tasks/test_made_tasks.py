"""Tasks made of a small checkout and validated, in real sandboxes: right, the same every time, and resumable."""

import ast
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lego_rl.commands.tasks_make import table
from lego_rl.errors import TaskError
from lego_rl.sandbox.bubblewrap.provider import BubblewrapProvider
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.sandbox.task_grader import SandboxedGrader
from lego_rl.sandbox.tree_tests import SandboxedRunner
from lego_rl.tasks.make.account import REASONS
from lego_rl.tasks.make.making import Wish, make_tasks
from lego_rl.tasks.make.running import TestRun
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.validate.journal import Validations
from lego_rl.tasks.validate.judge import Validation
from lego_rl.tasks.validate.run import Validator
from tests.unit.tasks.make.small_package import FIRST, SECOND, write_checkout, write_folder

WISH = Wish(inject=3, mine=1, at_once=2)


class Silent:
    """Watches and says nothing."""

    def doing(self, what: str) -> None:
        assert what

    def made(self, task: str, kind: str) -> None:
        assert kind in ("injected", "mined")

    def found(self, validation: Validation, done: int, total: int) -> None:
        assert 0 < done <= total


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> BubblewrapProvider:
    return BubblewrapProvider(State(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, provider: BubblewrapProvider) -> SandboxedRunner:
    return SandboxedRunner(provider, tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("source") / "small", FIRST, SECOND)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, checkout: Path, runner: SandboxedRunner) -> Path:
    pool = tmp_path_factory.mktemp("pool")
    asyncio.run(make_tasks([checkout], pool, WISH, runner, Silent()))
    return pool


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tasks(pool: Path) -> list[Path]:
    return sorted(path.parent for path in pool.glob("*/task.toml"))


async def validated(pool: Path, provider: BubblewrapProvider, folders: list[Path], times: int = 3) -> list[Validation]:
    grader = SandboxedGrader(provider, SandboxSettings())
    return await Validator(grader, Validations(pool / "found.jsonl"), times, 2).validate(folders, Silent())


async def test_what_was_asked_for_is_made_and_valid_three_times(pool: Path, provider: BubblewrapProvider) -> None:
    found = await validated(pool, provider, tasks(pool))
    assert [(each.judgement, each.reason) for each in found] == [("valid", "")] * 4
    report = json.loads((pool / "make-small.json").read_text())
    assert [len(report["tasks"][kind]) for kind in ("injected", "mined")] == [3, 1]
    assert len(report["families"]) == 4


def test_the_bug_and_the_tests_that_decide_are_not_to_be_read_off(pool: Path) -> None:
    for folder in tasks(pool):
        task = Task.load(folder)
        assert isinstance(task.tests, TestSpec)
        repo = folder / "environment" / "repo"
        assert not list(repo.rglob(".git"))
        assert task.history.agent == "single-commit"
        shown = (repo / "tests" / "test_core.py").read_text()
        for test in task.tests.fail_to_pass:
            assert f"def {test.partition('[')[0].rpartition('::')[2]}(" not in shown
        changed = [
            line[1:].strip()
            for line in (folder / "solution" / "gold.patch").read_text().splitlines()
            if line[:1] in "+-" and not line.startswith(("+++", "---"))
        ]
        assert changed
        assert not [line for line in changed if line and line in task.instruction]
        assert "core.py" not in task.instruction


def test_a_mined_task_starts_from_the_state_before_and_has_the_fix_alone(pool: Path) -> None:
    (folder,) = [path for path in tasks(pool) if "mined" in path.name]
    repo = {name: text.decode() for name, text in contents(folder / "environment" / "repo").items()}
    assert repo == FIRST
    patch = (folder / "solution" / "gold.patch").read_text()
    assert 'sep + "-"' in patch
    assert "about words" not in patch
    assert (folder / "tests" / "files" / "tests" / "test_core.py").read_text() == SECOND["tests/test_core.py"]
    assert "The initials of names with hyphens keep the hyphens." in (folder / "instruction.md").read_text()


class Refusing:
    """A place where no test may be run any more."""

    sandboxes = ""

    async def bench(self, tree: Tree) -> "Refusing":
        return self

    async def run(self, files: Mapping[str, bytes | None], command: str, timeout_sec: float) -> TestRun:
        raise AssertionError(f"{command} was run again")


async def test_a_run_that_was_stopped_goes_on_and_ends_in_the_same_bytes(
    pool: Path, checkout: Path, runner: SandboxedRunner, tmp_path: Path
) -> None:
    made = {path.name: contents(path) for path in tasks(pool)}
    await make_tasks([checkout], tmp_path, Wish(inject=1, mine=0, at_once=1), runner, Silent())
    await make_tasks([checkout], tmp_path, WISH, runner, Silent())
    assert {path.name: contents(path) for path in tasks(tmp_path)} == made

    await make_tasks([checkout], tmp_path, WISH, Refusing(), Silent())
    assert {path.name: contents(path) for path in tasks(tmp_path)} == made


async def test_code_of_the_tree_runs_in_sandboxes_only(runner: SandboxedRunner, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    reach = f"import pathlib\npathlib.Path({str(mark)!r}).write_text('here')\n"
    own = f"import pathlib\ntry:\n    pathlib.Path({str(mark)!r}).write_text('here')\nexcept OSError:\n    pass\n"
    hostile = {**FIRST, "setup.py": reach, "conftest.py": reach, "small/__init__.py": own}
    source = write_folder(tmp_path / "small", hostile)
    await make_tasks([source], tmp_path / "pool", Wish(inject=1, mine=0), runner, Silent())
    assert tasks(tmp_path / "pool")
    assert not mark.exists()


async def test_flaky_slow_and_failing_tests_are_named_and_left_out(runner: SandboxedRunner, tmp_path: Path) -> None:
    odd = """\
import os
import time


def test_flaky():
    assert os.getpid() and time.time_ns() // 1000 % 2


def test_slow():
    time.sleep(2.5)


def test_fails():
    assert 0
"""
    broken = {"tests/test_odd.py": odd, "tests/test_broken.py": "import missing_module\n"}
    source = write_folder(tmp_path / "small", {**FIRST, **broken})
    account = await make_tasks([source], tmp_path / "pool", Wish(inject=1, mine=0), runner, Silent())
    suite = account.suite
    assert suite is not None
    assert suite.slow == ("tests/test_odd.py::test_slow",)
    assert "tests/test_odd.py::test_fails" in suite.failing
    assert "missing_module" in suite.left_out["tests/test_broken.py"]
    for folder in tasks(tmp_path / "pool"):
        spec = Task.load(folder).tests
        assert isinstance(spec, TestSpec)
        assert not {"tests/test_odd.py::test_slow", "tests/test_odd.py::test_fails"} & {*spec.pass_to_pass}


async def test_what_the_sandbox_has_itself_is_refused(runner: SandboxedRunner, tmp_path: Path) -> None:
    source = write_folder(tmp_path / "small", {**FIRST, "iniconfig/__init__.py": "", "iniconfig/core.py": "a = 1\n"})
    with pytest.raises(TaskError, match="the sandbox has iniconfig of its own"):
        await make_tasks([source], tmp_path / "pool", Wish(inject=1, mine=0), runner, Silent())


async def test_a_function_that_can_be_read_elsewhere_gets_no_bug(runner: SandboxedRunner, tmp_path: Path) -> None:
    source = write_folder(tmp_path / "small", {**FIRST, "old/core.py": FIRST["small/core.py"]})
    account = await make_tasks([source], tmp_path / "pool", Wish(inject=1, mine=0), runner, Silent())
    assert account.rejected["injected"]["copied"] > 0
    assert not tasks(tmp_path / "pool")


async def test_no_two_tasks_have_a_bug_in_one_function(runner: SandboxedRunner, tmp_path: Path) -> None:
    source = write_folder(tmp_path / "small", FIRST)
    await make_tasks([source], tmp_path / "pool", Wish(inject=6, mine=0), runner, Silent())
    right = functions(FIRST["small/core.py"])
    bugs: list[str] = []
    for folder in tasks(tmp_path / "pool"):
        found = functions((folder / "environment" / "repo" / "small" / "core.py").read_text())
        bugs += [name for name, code in found.items() if code != right[name]]
    assert len(bugs) >= 2
    assert len(set(bugs)) == len(bugs)


async def test_every_part_of_a_step_that_is_no_task_is_counted(runner: SandboxedRunner, tmp_path: Path) -> None:
    large = "def large():\n    total = 0\n" + "    total += 1\n" * 210 + "    return total\n"
    asked = "\n\ndef test_large():\n    from small.large import large\n\n    assert large() == 210\n"
    third = {**SECOND, "small/large.py": large, "tests/test_core.py": SECOND["tests/test_core.py"] + asked}
    source = write_checkout(tmp_path / "small", FIRST, third)
    for each in (runner, Refusing()):
        account = await make_tasks([source], tmp_path / "pool", Wish(inject=0, mine=4), each, Silent())
        assert len(account.tasks["mined"]) == 1
        assert account.rejected["mined"] == {"too_large": 1}
        rows = [[*column.cells] for column in table(account).columns]
        assert list(zip(*rows, strict=True)) == [
            ("bugs tried", "0", ""),
            ("steps looked at", "", "1"),
            ("tasks", "0", "1"),
            (REASONS["too_large"], "", "1"),
        ]


def functions(source: str) -> dict[str, str]:
    """The code of each function, by name."""
    return {node.name: ast.dump(node) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


async def test_tests_that_need_more_than_pytest_are_said_so(runner: SandboxedRunner, tmp_path: Path) -> None:
    source = write_folder(
        tmp_path / "small", {**FIRST, "small/core.py": f"import missing_module\n{FIRST['small/core.py']}"}
    )
    with pytest.raises(TaskError, match="1 files cannot be collected"):
        await make_tasks([source], tmp_path / "pool", Wish(inject=1, mine=0), runner, Silent())


async def test_validation_finds_a_task_that_is_wrong(pool: Path, provider: BubblewrapProvider, tmp_path: Path) -> None:
    source = next(path for path in tasks(pool) if "mined" not in path.name)

    def copy(name: str, changed: Mapping[str, bytes]) -> Path:
        target = tmp_path / name
        for path, content in {**contents(source), **changed}.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(content)
        return target

    files = contents(source)
    repo, other = "environment/repo/", b"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-# small\n+# Small\n"
    hidden = {
        repo + path.removeprefix("tests/files/"): files[path] for path in files if path.startswith("tests/files/")
    }
    (mended,) = [path for path in files if path.startswith("solution/files/")]
    fixed = {repo + mended.removeprefix("solution/files/"): files[mended]}
    gold = files["solution/gold.patch"]
    folders = [
        copy("solved", {**fixed, "solution/gold.patch": other}),
        copy("no-fix", {"solution/gold.patch": other}),
        copy("shown", hidden),
        copy("misfit", {"solution/gold.patch": gold.replace(b"\n-", b"\n-other ", 2)}),
    ]
    found = await validated(tmp_path, provider, folders, times=1)
    assert [each.judgement for each in found] == ["empty_solves", "gold_fails", "unusable", "unusable"]
    assert "tests/files/" in found[2].reason and "not sealed" in found[2].reason
    assert "gold.patch" in found[3].reason
