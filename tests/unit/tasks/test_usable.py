"""What a trial would refuse of a task directory is found without one, by the same call that a trial makes."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from harbor.models.task.task import Task as HarborTask

from lego_rl.errors import TaskError
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import generate
from lego_rl.tasks.task import Task
from lego_rl.tasks.usable import check_usable

type Spoil = Callable[[Path], object]
REPO = Path("environment/repo")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_task(generate(0, "comparison", 0), tmp_path_factory.mktemp("pool"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "task"))


def reworded(old: str, new: str) -> Spoil:
    """A change of the ``task.toml``."""

    def spoil(task: Path) -> None:
        text = (task / "task.toml").read_text()
        assert old in text
        (task / "task.toml").write_text(text.replace(old, new))

    return spoil


def each_in_the_other(task: Path) -> None:
    for here, there in (("x", "y"), ("y", "x")):
        (task / REPO / here).mkdir()
        (task / REPO / here / "link").symlink_to(f"../{there}")


def test_a_whole_task_is_taken(folder: Path) -> None:
    check_usable(Task.load(folder))


REFUSED: dict[str, tuple[Spoil, str]] = {
    "no test.sh": (lambda task: (task / "tests/test.sh").unlink(), "has no tests/test.sh"),
    "network of the agent": (reworded('"no-network"\n\n[verifier]', '"public"\n\n[verifier]'), "asks for .* 'public'"),
    "no network mode": (reworded('network_mode = "no-network"\n', ""), "asks for network mode 'public'"),
    "Harbor's own keys": (reworded("[environment]\n", '[environment]\nos = "plan9"\n'), "Harbor refuses task task: "),
    "pipe": (lambda task: os.mkfifo(task / REPO / "pipe"), "environment/repo/pipe is a pipe"),
    "link to its folder": (lambda task: (task / REPO / "self").symlink_to("."), "repo/self leads back to a folder"),
    "link to above the task": (lambda task: (task / REPO / "up").symlink_to(task.parent), "repo/up leads back"),
    "link to the root": (lambda task: (task / REPO / "root").symlink_to("/"), "repo/root leads back to a folder"),
    "folders in each other": (each_in_the_other, "leads back to a folder"),
    "link to itself": (
        lambda task: (task / REPO / "loop").symlink_to("loop"),
        "the link .*repo/loop cannot be followed",
    ),
    "link to below a file": (
        lambda task: (task / REPO / "odd").symlink_to("/etc/passwd/x"),
        "the link .*repo/odd cannot be followed: Not a directory",
    ),
    "name in bytes": (lambda task: Path(os.fsdecode(bytes(task / REPO) + b"/\xff")).touch(), "name of .* is not UTF-8"),
    "test that is a link out": (
        lambda task: (task / "tests/files/helper.py").symlink_to("/etc/passwd"),
        "Harbor refuses task task: Input paths must stay within the task",
    ),
}


@pytest.mark.parametrize(("spoil", "said"), REFUSED.values(), ids=REFUSED)
def test_what_a_trial_would_refuse(folder: Path, spoil: Spoil, said: str) -> None:
    spoil(folder)
    with pytest.raises(TaskError, match=said) as caught:
        check_usable(Task.load(folder))
    assert caught.value.fix
    assert "\n" not in caught.value.problem


def a_socket(task: Path) -> None:
    (task / REPO / ".git").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(task / REPO / ".git" / "fsmonitor"))


TAKEN: dict[str, Spoil] = {
    "link to nowhere": lambda task: (task / REPO / "gone").symlink_to("nowhere"),
    "link to a folder beside": lambda task: (task / REPO / "beside").symlink_to("../../tests"),
    "two links to one folder": lambda task: [(task / REPO / name).symlink_to("../../tests") for name in "ab"],
    "socket of git's": a_socket,
}


@pytest.mark.parametrize("change", TAKEN.values(), ids=TAKEN)
def test_what_a_trial_takes(folder: Path, change: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # the path of a socket is short
    change(Path())
    check_usable(Task.load(folder))
    with pytest.warns(DeprecationWarning):
        assert HarborTask(folder).checksum, "Harbor hashes it at the start of a trial"


def test_a_task_in_a_folder_whose_name_is_no_text_is_named(folder: Path) -> None:
    odd = folder.parent / os.fsdecode(b"\xff")
    folder.rename(odd)
    with pytest.raises(TaskError, match="is not UTF-8"):
        check_usable(Task.load(odd))
