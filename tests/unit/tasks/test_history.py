"""What a task says of its history, and what that history may not give away."""

import subprocess
from pathlib import Path

import pytest

from lego_rl.errors import TaskError
from lego_rl.tasks.build import build_pool
from lego_rl.tasks.history import History
from lego_rl.tasks.task import Task, history_of
from lego_rl.tasks.withheld import blob_id, withheld_files

COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_pool(tmp_path_factory.mktemp("pool") / "pool", sizes={"train": 1})[0]


def with_metadata(folder: Path, target: Path, lines: str) -> Path:
    text = (folder / "task.toml").read_text()
    target.mkdir()
    (target / "task.toml").write_text(text.replace("[metadata]\n", f"[metadata]\n{lines}\n"))
    return target


def test_the_default(folder: Path) -> None:
    history = history_of(folder)
    assert (history.base_commit, history.agent, history.grading) == (None, "reachable", "same")
    assert history == Task.load(folder).history
    names = {name for _, name in history.withheld}
    solution = {str(path.relative_to(folder)) for path in (folder / "solution" / "files").rglob("*.py")}
    assert names == solution | {f"tests/files/{name}" for name in Task.load(folder).tests.test_files}


def test_what_a_task_can_ask_for(folder: Path, tmp_path: Path) -> None:
    lines = f'base_commit = "{COMMIT}"\nhistory = "single-commit"\ngrading_history = "tags"'
    assert history_of(with_metadata(folder, tmp_path / "task", lines)) == History(COMMIT, "single-commit", "tags")


@pytest.mark.parametrize(("key", "value"), [("base_commit", "v1.0"), ("history", "all"), ("grading_history", "x")])
def test_what_it_cannot(folder: Path, tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(TaskError, match=rf"task\.toml: metadata\.{key}"):
        history_of(with_metadata(folder, tmp_path / "task", f'{key} = "{value}"'))


def test_a_folder_that_is_no_task(tmp_path: Path) -> None:
    assert history_of(tmp_path) == History()


def test_ids_are_those_that_git_gives(tmp_path: Path) -> None:
    told = subprocess.run(["git", "hash-object", "--stdin"], input=b"fix\n", capture_output=True, check=True).stdout
    assert told.decode().strip() == blob_id(b"fix\n")


def test_what_is_withheld(tmp_path: Path) -> None:
    files = {
        "tests/files/test_a.py": "a",
        "tests/files/test_b.py": "b",
        "tests/files/empty.py": "",
        "solution/files/x/fixed.py": "fixed",
        "solution/gold.patch": f"index {'0' * 40}..{COMMIT} 100644\nindex 1234567..89abcde\nindex 12..{'0' * 40}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert dict(withheld_files(tmp_path, ["test_a.py", "empty.py", "missing.py"])) == {
        blob_id(b"a"): "tests/files/test_a.py",
        blob_id(b"fixed"): "solution/files/x/fixed.py",
        COMMIT: "solution/gold.patch",
    }
