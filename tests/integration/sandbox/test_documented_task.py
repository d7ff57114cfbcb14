"""The task of docs/tasks.md is validated by its command, as both stand on the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox_tools import write_files

from lego_rl.tasks.validate.judge import Validation

PAGE = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text(encoding="utf-8")
BROKEN = "def total(fees):\n    return sum(fees[1:])\n"
TESTS = """\
from fee import total


def test_total():
    assert total([1, 2]) == 3


def test_empty():
    assert total([]) == 0
"""


def block(language: str, word: str) -> str:
    """The one block of a language that holds a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


def command_of_the_page() -> list[str]:
    """The one command that validates the page's task."""
    (line,) = re.findall(r"^ {4}(\S*lego-rl tasks validate my-tasks/fee-001.*)$", PAGE, flags=re.MULTILINE)
    return str(line).split()


@pytest.mark.parametrize("environment", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def test_the_fix_is_told_from_nothing(request: pytest.FixtureRequest, tmp_path: Path, environment: str) -> None:
    task = documented_task(tmp_path)
    docker = {"DOCKER_HOST": request.getfixturevalue("docker_host")} if environment == "docker" else {}
    env = {**os.environ, **docker, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program, *arguments = command_of_the_page()
    assert program == ".venv/bin/lego-rl"
    script = "from lego_rl.cli import main; main()"
    command = [sys.executable, "-c", script, *arguments, *(["--environment", "docker"] if docker else [])]

    def run() -> tuple[int, str, Validation]:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        last = (task.parent / "validation.jsonl").read_text().splitlines()[-1]
        return done.returncode, done.stdout + done.stderr, Validation.model_validate_json(last)

    code, said, found = run()
    assert (code, found.judgement) == (0, "valid"), said
    gradings = [(each.variant, each.reward, each.not_passed) for each in found.attempts]
    failed = ("empty", 0, {"tests/test_fee.py::test_total": "failed"})
    assert gradings == [failed] * 3 + [("gold", 1, {})] * 3
    if environment == "bubblewrap":
        (task / "solution" / "files" / "fee.py").write_text(BROKEN)
        code, said, found = run()
        assert (code, found.judgement) == (1, "gold_fails")
        assert "tests/test_fee.py::test_total" in said
        (task / "tests" / "test.sh").unlink()
        code, said, found = run()
        assert (code, found.judgement) == (1, "unusable")
        assert "task fee-001 has no tests/test.sh" in said


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
