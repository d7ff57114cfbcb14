"""What was found out or written by a run before: taken where nothing that it depends on is another."""

from dataclasses import replace
from pathlib import Path

from lego_rl.commands.tasks_make import TREES
from lego_rl.owner import own_stamp
from lego_rl.tasks.content import directory_digest
from lego_rl.tasks.make.account import Account
from lego_rl.tasks.make.journal import Findings
from lego_rl.tasks.make.tree import Tree
from lego_rl.tasks.make.workshop import Workshop
from lego_rl.tasks.make.writing import Found
from lego_rl.tasks.staging import remove_leftovers
from lego_rl.tasks.task import Task

FOUND = Found(
    id="small-1",
    kind="injected",
    family="constant",
    package="small",
    repository="me/small",
    label="1.0",
    state="1.0",
    instruction="Mend it.\n",
    tree=Tree({"small.py": b"a = 1\n"}),
    fix={"small.py": b"a = 2\n"},
    hidden={"test_small.py": b"x\n"},
    fail_to_pass=("test_small.py::test",),
    pass_to_pass=(),
    command="true",
    suite_sec=1.0,
)


class Silent:
    def doing(self, what: str) -> None:
        raise AssertionError(what)

    def made(self, task: str, kind: str) -> None:
        assert (task, kind) == ("small-1", "injected")


def shop(pool: Path) -> Workshop:
    account = Account("small", "1.0", "me/small")
    return Workshop(None, Findings(pool / "f.jsonl"), pool, account, Silent(), 0, 1)  # type: ignore[arg-type]


def test_a_finding_is_of_the_sandboxes_that_it_was_made_in(tmp_path: Path) -> None:
    file = tmp_path / "findings.jsonl"
    Findings(file, "bubblewrap").put({"reason": "no_suite"}, "mined", "a", "b")
    assert Findings(file, "bubblewrap").get("mined", "a", "b") == {"reason": "no_suite"}
    assert Findings(file, "with an image").get("mined", "a", "b") is None


def test_a_task_that_is_there_as_it_is_is_left_and_one_that_is_not_is_written_anew(tmp_path: Path) -> None:
    shop(tmp_path).write(FOUND, "small.py")
    folder = tmp_path / "small-1"
    before, made = directory_digest(folder), (folder / "task.toml").stat().st_ino
    shop(tmp_path).write(FOUND, "small.py")
    assert (directory_digest(folder), (folder / "task.toml").stat().st_ino) == (before, made)

    (folder / "tests" / "left.py").write_text("of another tree")
    shop(tmp_path).write(replace(FOUND, repository="them/small"), "small.py")
    source = Task.load(folder).source
    assert source is not None and source.repo == "them/small"
    assert not (folder / "tests" / "left.py").exists()


def test_a_task_of_no_known_repository_names_none(tmp_path: Path) -> None:
    shop(tmp_path).write(replace(FOUND, repository=""), "small.py")
    source = Task.load(tmp_path / "small-1").source
    assert source is not None and source.repo == ""
    assert "repo" not in (tmp_path / "small-1" / "task.toml").read_text()


def test_trees_of_a_run_that_was_killed_are_removed_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    pid, started, rest = own_stamp().split(".", 2)
    dead, alive = (tmp_path / f"{TREES}{pid}.{start}.{rest}-abc" for start in (int(started) + 1, started))
    for folder in (dead, alive, tmp_path / ".trees-of-mine"):
        (folder / "tree").mkdir(parents=True)
    remove_leftovers(tmp_path, TREES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive.name, ".trees-of-mine"])
