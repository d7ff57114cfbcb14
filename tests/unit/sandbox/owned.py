"""Tasks of a few files, to ask what of them is the task's own."""

from pathlib import Path

from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.tasks.task import Task, TestScript, TestSpec

PYTEST = "python -m pytest tests"
TREE = {
    "app/__init__.py": "", "app/templates/base.html": "", "app/static/a.css": "", "tests/test_a.py": "",
    "ns/sub/mod.py": "", "docs/index.rst": "", "plugins/modules/x.py": "", "src/app/__init__.py": "",
}  # fmt: skip


def owner(
    folder: Path,
    files: dict[str, str] | None = None,
    *,
    command: str = PYTEST,
    hidden: dict[str, str] | None = None,
    unlisted: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    script: str = "",
) -> Ownership:
    """Of a task with a work tree of `TREE` and more files, hidden tests, and hidden files that no list names."""
    own = hidden or {"tests/test_a.py": ""}
    write(folder / "tree", {**TREE, **(files or {})})
    write(folder / "task" / "tests" / "files", {**own, **(unlisted or {})})
    tests: TestSpec | TestScript = TestSpec(
        tuple(f"{name}::test_it" for name in own if "test_" in name), (), command, "pytest-junit", tuple(own)
    )
    if script:
        write(folder / "task" / "tests", {"test.sh": script})
        tests = TestScript()
    return Ownership.of(Task("t", folder / "task", "", "", "/app", tests, 1.0, 1), folder / "tree", env or {})


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
