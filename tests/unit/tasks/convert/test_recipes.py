"""What the recipes of environments do to a work tree: their ``RUN`` steps, run here on a work tree of the same kind.

No image is built: paths of one are replaced by those of a temporary folder.
"""

import re
import subprocess
from pathlib import Path

import pytest
from synthetic_rows import BUG, MENDING, TREE, r2e, smith

from git_tools import commit, git, init
from lego_rl.tasks.convert.registry import format_named


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    """A repository with the fix in it, and in its history."""
    tree = tmp_path / "testbed"
    for name, content in TREE.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content.replace(b"first - second", b"first + second  " + MENDING.encode()))
    init(tree)
    commit(tree, {}, "the fix")
    (tree / ".gitignore").write_text("*.pyc\n")
    (tree / ".venv").mkdir()
    (tree / ".venv" / "pyvenv.cfg").write_text("")
    return tree


def run_steps(recipe: str, testbed: Path, root: Path) -> None:
    """Run the shell steps of a Dockerfile as a build would."""
    steps = re.findall(r"^RUN ((?:.*\\\n)*.*)$", recipe, re.MULTILINE)
    assert steps
    for step in steps:
        script = re.sub(r"(?<![\w/.-])/(r2e_tests|root|tmp)\b", rf"{root}/\1", step)
        assert str(root) in script
        subprocess.run(["sh", "-ec", script], cwd=testbed, check=True, capture_output=True)


def test_swe_smith_has_the_bug_and_no_history_without_it(testbed: Path, tmp_path: Path) -> None:
    files = format_named("swe-smith").convert(smith()).environment.files
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "lego-bug.patch").write_text(BUG)
    run_steps(files["Dockerfile"].decode(), testbed, tmp_path)
    assert (testbed / "src" / "calc.py").read_bytes() == TREE["src/calc.py"]
    assert not list((tmp_path / "tmp").iterdir())
    _has_one_commit_of_what_is_there(testbed)


def test_r2e_gym_has_neither_tests_nor_history(testbed: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "r2e_tests", testbed / "r2e_tests", tmp_path / "root" / "r2e_tests"):
        folder.mkdir(parents=True)
        (folder / "test_1.py").write_text("hidden")
    for name in ("expected_test_output.json", "parsed_commit.json", "run_tests.sh"):
        (testbed / name).write_text("x")
    (testbed / "src" / "calc.py").write_bytes(TREE["src/calc.py"])
    run_steps(format_named("r2e-gym").convert(r2e()).environment.files["Dockerfile"].decode(), testbed, tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if ".git" not in path.parts}
    assert {"calc.py", "run_tests.sh", "pyvenv.cfg"} <= left
    assert not {"r2e_tests", "test_1.py", "expected_test_output.json", "parsed_commit.json"} & left
    _has_one_commit_of_what_is_there(testbed)
    assert "pyvenv.cfg" not in git(testbed, "ls-files")


def _has_one_commit_of_what_is_there(testbed: Path) -> None:
    assert git(testbed, "rev-list", "--all", "--count").strip() == "1"
    assert git(testbed, "status", "--porcelain", "--", "src", "tests").strip() == ""
    objects = git(testbed, "cat-file", "--batch-check", "--batch-all-objects")
    blobs = [line.split()[0] for line in objects.splitlines() if " blob " in line]
    assert not any(MENDING in git(testbed, "cat-file", "-p", blob) for blob in blobs)
