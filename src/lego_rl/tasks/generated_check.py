"""Checks that a built-in task is right: its hidden tests tell the bug from the fix.

This runs the tests in this very process and is meant for code that Lego-RL generated itself. What an agent left behind
is only ever run by the grader, in a sandbox.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lego_rl.errors import TaskError
from lego_rl.tasks.task import Task, TestSpec


def run_tests(files: Mapping[str, str], tests: Mapping[str, str]) -> dict[str, bool]:
    """Run test functions against a repository.

    Args:
        files: The repository: relative path → text.
        tests: Test files: relative path → text.

    Returns:
        Test id (``path::function``) → whether it passed. Only an `AssertionError` counts as a failure; what else a test
        raises is raised.
    """
    results: dict[str, bool] = {}
    with TemporaryDirectory() as scratch, _importable(Path(scratch)):
        for name, text in files.items():
            file = Path(scratch) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        for path, text in tests.items():
            namespace: dict[str, object] = {}
            exec(compile(text, path, "exec"), namespace)
            functions = {name: value for name, value in namespace.items() if name.startswith("test_")}
            results |= {f"{path}::{name}": _passes(function) for name, function in functions.items()}
    return results


def validate(task: Task) -> None:
    """Check that the empty patch fails all FAIL_TO_PASS tests alone, and that the gold patch passes everything.

    Raises:
        TaskError: It is otherwise; the message names the test.
    """
    if not isinstance(task.tests, TestSpec):
        raise TaskError(f"task {task.id} has no tests/spec.json", "only tasks with one can be checked here")
    files = _read_tree(task.path / "environment" / "repo")
    fixed = files | _read_tree(task.path / "solution" / "files")
    tests = _read_tree(task.path / "tests" / "files")
    named = {*task.tests.fail_to_pass, *task.tests.pass_to_pass}
    before, after = run_tests(files, tests), run_tests(fixed, tests)
    for test in sorted(named | set(before)):
        if test not in named or test not in before:
            raise TaskError(f"task {task.id}: {test} is not in both the test files and tests/spec.json", "rebuild it")
        if before[test] == (test in task.tests.fail_to_pass):
            raise TaskError(f"task {task.id}: {test} is on the wrong side before the fix", "rebuild the task")
        if not after[test]:
            raise TaskError(f"task {task.id}: {test} fails after the gold patch", "rebuild the task")


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let `folder` be imported from, and forget its modules afterwards; byte code is not written."""
    known, writes = set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            del sys.modules[name]


def _passes(test: object) -> bool:
    assert callable(test)
    try:
        test()
    except AssertionError:
        return False
    return True


def _read_tree(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
