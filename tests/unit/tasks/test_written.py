"""Texts that no program can be given, and keys that look like another, are refused where a task is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from lego_rl.errors import TaskError
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.task import Task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(generate(0, "comparison", 0), tmp_path)


@pytest.mark.parametrize("key", ["command", "FAIL_TO_PASS", "PASS_TO_PASS", "test_files", "parser"])
def test_a_null_character_in_the_specification(folder: Path, key: str) -> None:
    spec = folder / "tests/spec.json"
    raw: dict[str, Any] = json.loads(spec.read_text())
    raw[key] = f"{raw[key]}\0" if isinstance(raw[key], str) else [*raw[key], "tests/a\0b.py"]
    spec.write_text(json.dumps(raw))
    with pytest.raises(TaskError, match=f"{key}.*null character"):
        Task.load(folder)


@pytest.mark.parametrize(
    ("section", "line", "said"),
    [
        ("verifier", 'env = { A = "b\\u0000" }', "verifier.env.A.*null character"),
        ("verifier", 'env = { "A\\u0000" = "b" }', "null character"),
        ("verifier", 'env = { "A=B" = "c" }', "no name of a variable"),
        ("verifier", 'env = { "" = "c" }', "no name of a variable"),
        ("environment", 'docker_image = "a\\u0000"', "environment.docker_image.*null character"),
        ("metadata", 'editable = ["a\\u0000"]', "metadata.editable.*null character"),
        ("metadata", 'edittable = ["a"]', "edittable means nothing there: did you mean editable?"),
        ("metadata", 'visable = ["a"]', "did you mean visible?"),
        ("metadata", 'base_comit = "a"', "did you mean base_commit?"),
    ],
)
def test_a_line_of_the_task_that_cannot_be_used(folder: Path, section: str, line: str, said: str) -> None:
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace(f"[{section}]\n", f"[{section}]\n{line}\n"))
    with pytest.raises(TaskError, match=said):
        Task.load(folder)


def test_keys_of_others_are_theirs(folder: Path) -> None:
    toml = folder / "task.toml"
    others = 'author = "x"\ntags = ["y"]\ndifficulty = "hard"\ncategory = "z"\nrepository = "r"\nhistorical = true\n'
    toml.write_text(toml.read_text().replace("[metadata]\n", f"[metadata]\n{others}"))
    assert Task.load(folder).family == "comparison"


def test_a_null_character_in_the_instruction(folder: Path) -> None:
    (folder / "instruction.md").write_text("Mend\0it")
    with pytest.raises(TaskError, match=r"instruction\.md has a null character"):
        Task.load(folder)


def test_less_memory_than_a_sandbox_starts_in(folder: Path) -> None:
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace("memory_mb = 2048", "memory_mb = 1"))
    with pytest.raises(TaskError, match=r"environment\.memory_mb.*32"):
        Task.load(folder)
