"""What stock Harbor judges a converted task with: files of its ``tests/`` alone, run by any Python."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_rows import FAILS, HIDDEN, PASSES, TREE, gym, present, r2e

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


@pytest.mark.parametrize(("mended", "reward"), [(False, "0"), (True, "1")])
def test_the_script_of_stock_harbor_from_patch_to_reward(tmp_path: Path, mended: bool, reward: str) -> None:
    """Its absolute paths are replaced by those of a temporary folder; else it runs as it is."""
    tests = format_named("swe-gym").convert(gym()).write(tmp_path) / "tests"
    folders = {"/testbed": tmp_path / "testbed", "/tests": tests, "/logs": tmp_path / "logs", "/tmp": tmp_path / "tmp"}
    (tmp_path / "tmp").mkdir()
    for name, content in TREE.items():
        file = folders["/testbed"] / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.replace(b" - ", b" + ") if mended else content)
    script = (tests / "test.sh").read_text().replace("pytest -n0", "pytest -p no:cacheprovider")
    script = re.sub(r"(?<![\w/])/(testbed|tests|logs|tmp)\b", lambda found: str(folders[found[0]]), script)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script], check=False, capture_output=True, env={**os.environ, "PATH": path})
    assert (folders["/logs"] / "verifier" / "reward.txt").read_text().strip() == reward
    assert HIDDEN.split("def ")[-1].partition("(")[0] in (folders["/testbed"] / "tests" / "test_calc.py").read_text()


@pytest.mark.parametrize("name", ["judge.py", "lines.py"])
def test_the_files_are_read_by_old_pythons_too(name: str) -> None:
    task = format_named("swe-gym").convert(gym())
    compile(task.tests.support[name], name, "exec", dont_inherit=True)
    subprocess.run(
        [sys.executable, "-c", "import ast, sys; ast.parse(sys.stdin.read(), feature_version=(3, 8))"],
        input=task.tests.support[name],
        check=True,
    )
