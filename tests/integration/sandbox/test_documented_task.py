"""The task of docs/tasks.md is graded by its script, as both stand on the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox_tools import write_files

PAGE = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text(encoding="utf-8")
BROKEN = "def total(fees):\n    return sum(fees[1:])\n"
TESTS = """\
from fee import total


def test_total():
    assert total([1, 2]) == 3


def test_empty():
    assert total([]) == 0
"""


"""What the page's part of a recipe leaves out."""


def block(language: str, word: str) -> str:
    """The one block of a language that holds a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


@pytest.mark.parametrize("environment", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def test_the_fix_is_told_from_nothing(request: pytest.FixtureRequest, tmp_path: Path, environment: str) -> None:
    task = documented_task(tmp_path)
    script = tmp_path / "check.py"
    script.write_text(block("python", "asyncio.run(check("))
    docker = {"DOCKER_HOST": request.getfixturevalue("docker_host")} if environment == "docker" else {}
    command = [sys.executable, script, task, *([environment] if docker else [])]
    env = {**os.environ, **docker, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = ("tests/test_fee.py::test_total", "tests/test_fee.py::test_empty")
    assert done.stdout.splitlines() == [
        f"empty 0 {dict(zip(names, ('failed', 'passed'), strict=True))}",
        f"gold 1 {dict.fromkeys(names, 'passed')}",
    ]
    if environment == "bubblewrap":
        (task / "tests" / "test.sh").unlink()
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("task fee-001 has no tests/test.sh")


def documented_task(tmp_path: Path) -> Path:
    """The page's files, and what a reader has of their own."""
    task = tmp_path / "my-tasks" / "fee-001"
    write_files(task, {
        "task.toml": block("toml", "schema_version"),
        "instruction.md": "The total leaves out the first fee.\n",
        "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY repo/ /app/\n",
        "environment/repo/fee.py": BROKEN,
        "tests/spec.json": block("json", "FAIL_TO_PASS"),
        "tests/test.sh": block("sh", "reward"),
        "tests/files/tests/test_fee.py": TESTS,
        "solution/files/fee.py": BROKEN.replace("[1:]", ""),
    })  # fmt: skip
    return task
