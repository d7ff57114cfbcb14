"""The seal's look for what must not be seen, under whatever name and wherever an agent can read."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_tools import HIDDEN, write_files

from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal import SealError, verify_seal
from lego_rl.tasks.task import Task

SOLUTION = "def add(a, b):\n    # The very same as in the solution, byte for byte.\n    return a + b\n"
GOLD = (
    "--- a/calc/core.py\n+++ b/calc/core.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
)
CHECK = "import sys\n\nsys.path.insert(0, '/app')\nfrom calc import add\n\nassert add(2, 3) == 5, 'it does not add'\n"
LICENSE = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software.\n"
DATA = "name,amount\n" + "somebody,12\n" * 9
OWN = {
    "solution/files/calc/core.py": SOLUTION, "solution/gold.patch": GOLD, "tests/files/tests/__init__.py": "",
    "solution/files/LICENSE": LICENSE,
}  # fmt: skip
SCRIPT = {"tests/test.sh": "bash /tests/lib/check.sh\n", "tests/verify.py": CHECK, "tests/input.csv": DATA,
          "tests/expected.csv": DATA.upper()}  # fmt: skip


def variant(task_dir: Path, folder: Path, shown: Mapping[str, str], own: Mapping[str, str] = OWN) -> Task:
    """The task with a solution, and with more files in its repository."""
    shutil.copytree(task_dir, folder)
    write_files(folder, own)
    if own is SCRIPT:
        (folder / "tests" / "spec.json").unlink()
        shutil.rmtree(folder / "tests" / "files")
        toml = folder / "task.toml"
        toml.write_text(toml.read_text().replace('grader = "tests"', ""))
    write_files(folder / "environment" / "repo", shown)
    return Task.load(folder)


async def look(task: Task, provider: Provider) -> None:
    """What happens before an agent starts."""
    box = await provider.prepare(task.path / "environment", workdir="/app").start(Phase.AGENT)
    try:
        await verify_seal(box, task)
    finally:
        await box.close()


SHOWN = {
    "a hidden test": ("docs/example.txt", HIDDEN["tests/test_hidden.py"], "tests/files/tests/test_hidden.py", OWN),
    "a file of the solution": ("calc/old/core.bak", SOLUTION, "solution/files/calc/core.py", OWN),
    "its patch": ("fix.diff", GOLD, "solution/gold.patch", OWN),
    "the script": ("notes", SCRIPT["tests/test.sh"], "tests/test.sh", SCRIPT),
    "a program of the verifier": (".hidden/a", CHECK, "tests/verify.py", SCRIPT),
    "an expected output": ("out.csv", DATA.upper(), "tests/expected.csv", SCRIPT),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
async def test_what_must_be_hidden_is_found(case: str, task_dir: Path, tmp_path: Path, provider: Provider) -> None:
    path, text, name, own = SHOWN[case]
    task = variant(task_dir, tmp_path / "task", {path: text}, own)
    with pytest.raises(SealError) as caught:
        await look(task, provider)
    assert caught.value.problem == f"the sandbox is not sealed: /app/{path} is {name} of the task"
    assert "remove the file from environment/ of the task" in str(caught.value)
    await look(replace(task, visible=(name,)), provider)


async def test_what_tasks_honestly_have_twice_is_not_found(task_dir: Path, tmp_path: Path, provider: Provider) -> None:
    same = {"solution/files/calc/other.py": CHECK}
    honest = {"calc/__init__.py": "", "vendor/LICENSE": LICENSE, "calc/other.py": CHECK, "docs/__init__.py": ""}
    await look(variant(task_dir, tmp_path / "one", honest, {**OWN, **same}), provider)
    await look(variant(task_dir, tmp_path / "two", {"input.csv": DATA}, SCRIPT), provider)


async def test_an_edited_test_is_looked_for_as_it_is_now(task_dir: Path, tmp_path: Path, provider: Provider) -> None:
    task = variant(task_dir, tmp_path / "task", {"kept.txt": "# edited\n" + HIDDEN["tests/test_hidden.py"]})
    await look(task, provider)
    write_files(task.path, {"tests/files/tests/test_hidden.py": "# edited\n" + HIDDEN["tests/test_hidden.py"]})
    with pytest.raises(SealError, match=r"/app/kept\.txt is tests/files/tests/test_hidden\.py"):
        await look(task, provider)
