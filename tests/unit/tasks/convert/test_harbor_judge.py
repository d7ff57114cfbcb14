"""What stock Harbor judges a converted task with: files of its ``tests/`` alone, run by any Python."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_rows import FAILS, PASSES, gym, present, r2e

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.directory import TaskDirectory

PASSED = f"PASSED {FAILS}\nPASSED {PASSES}\n"


def judge(task: TaskDirectory, folder: Path, log: str, status: int, **environment: str) -> tuple[str, int]:
    tests = task.write(folder) / "tests"
    alone = folder / "elsewhere"
    shutil.copytree(tests, alone)
    (folder / "log").write_text(log)
    command = [sys.executable, "-I", str(alone / "judge.py"), str(status), str(folder / "log")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    return done.stdout.strip(), done.returncode


@pytest.mark.parametrize(
    ("log", "status", "reward"),
    [
        (PASSED, 0, "1"),
        (f"noise\n>>>>> Start Test Output\n{PASSED}>>>>> End Test Output\nFAILED {FAILS}\n", 0, "1"),
        (PASSED, 2, "0"),
        (f"{PASSED}FAILED tests/other.py::t\n", 1, "1"),
        (f"{PASSED}FAILED {PASSES} - no\n", 1, "0"),
        (f"{PASSED}ERROR tests/test_calc.py - no\n", 1, "0"),
        (f"PASSED {FAILS}\n", 0, "0"),
        ("", 0, "0"),
    ],
)
def test_a_log_of_pytest(tmp_path: Path, log: str, status: int, reward: str) -> None:
    assert judge(format_named("swe-gym").convert(gym()), tmp_path, log, status) == (reward, 0)


def test_a_log_of_r2e_gym(tmp_path: Path) -> None:
    log = "PASSED r2e_tests/test_1.py::test_hidden_sum\nPASSED r2e_tests/test_1.py::T::test_zero\n"
    assert judge(format_named("r2e-gym").convert(r2e()), tmp_path, log, 0) == ("1", 0)


def test_without_tests_that_decide_there_is_no_reward(tmp_path: Path) -> None:
    task = format_named("swe-gym").convert(gym())
    unlisted = dataclasses.replace(task, tests=dataclasses.replace(task.tests, fail_to_pass=(), pass_to_pass=()))
    assert judge(unlisted, tmp_path, PASSED, 0) == ("0", 0)


def test_a_log_that_cannot_be_read_gives_no_reward_at_all(tmp_path: Path) -> None:
    """swebench is fetched for it, which needs an index of packages; here there is none."""
    task = format_named("swebench").convert(present())
    assert judge(task, tmp_path, PASSED, 0, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull) == ("", 2)


@pytest.mark.parametrize("name", ["judge.py", "lines.py"])
def test_the_files_are_read_by_old_pythons_too(name: str) -> None:
    task = format_named("swe-gym").convert(gym())
    compile(task.tests.support[name], name, "exec", dont_inherit=True)
    subprocess.run(
        [sys.executable, "-c", "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 8))"],
        input=task.tests.support[name],
        check=True,
    )
