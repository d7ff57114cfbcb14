"""What a trial would refuse of a task directory, found without one.

Invariant: what stock Harbor makes of the directory is Harbor's own word: it reads it here as it does for a trial. What
it does besides, hashing every file of the task behind its links, is looked at without reading a file.
"""

import os
import stat
from pathlib import Path

from harbor.models.task.config import NetworkMode
from harbor.models.task.task import Task as HarborTask

from lego_rl.errors import TaskError
from lego_rl.tasks.task import Task

NO_AGENT_NETWORK = 'an agent phase has no network: set network_mode = "no-network" in [agent] or [environment]'
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def check_usable(task: Task) -> None:
    """See that Harbor takes a task, that it asks for no network for its agent, and that its files can be copied.

    Args:
        task: As it was read; it reads what Lego-RL adds to Harbor's files.

    Raises:
        TaskError: A trial of it would be refused; the message says what to mend.
    """
    if not (task.path / "tests" / "test.sh").is_file():
        raise TaskError(
            f"task {task.id} has no tests/test.sh, without which Harbor runs no task",
            "write one that ends in a reward for stock Harbor; docs/tasks.md has a short one",
        )
    _check_files(task)
    try:
        config = HarborTask(task.path).config
    except (OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise TaskError(f"Harbor refuses task {task.id}: {said}", "mend what it names") from error
    mode = config.agent.network_mode or config.environment.network_mode
    if mode != NetworkMode.NO_NETWORK:
        raise TaskError(f"task {task.id} asks for network mode {mode.value!r}", NO_AGENT_NETWORK)


def _check_files(task: Task) -> None:
    """Refuse names and links that Harbor cannot hash, and what is no file, in all that the directory leads to."""
    try:
        str(task.path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise TaskError(f"the path of task {task.id} is not UTF-8", "rename the folder that is not") from error
    root = task.path.resolve()
    try:
        _walk(task, task.path, frozenset({root, *root.parents}))
    except OSError as error:
        raise TaskError(f"task {task.id} cannot be read: {error}", "make its files readable by you") from error


def _walk(task: Task, folder: Path, above: frozenset[Path]) -> None:
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        name = Path(entry.path).relative_to(task.path)
        try:
            entry.name.encode()
        except UnicodeEncodeError as error:
            raise TaskError(f"task {task.id}: the name of {name} is not UTF-8", "rename or remove it") from error
        kind = _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode))
        if kind is not None and ".git" not in name.parts:  # where git has its own, and of which nothing is copied
            raise TaskError(f"task {task.id}: {name} is {kind}", "ship files, folders and links only")
        if entry.is_symlink() and not _leads_on(task, Path(entry.path), name):
            continue
        if entry.is_dir():
            real = Path(entry.path).resolve()
            if real in above:
                raise TaskError(
                    f"task {task.id}: {name} leads back to a folder that it is in, and Harbor, which hashes what lies "
                    "behind links, goes round in it",
                    "remove the link, and make it anew in the image or by the command of the tests",
                )
            if real.is_relative_to(task.path.resolve()):
                _walk(task, Path(entry.path), above | {real})


def _leads_on(task: Task, link: Path, name: Path) -> bool:
    """Whether a link leads to something; what leads nowhere is fine.

    Raises:
        TaskError: It leads to itself, or to below a file.
    """
    try:
        link.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TaskError(f"task {task.id}: the link {name} cannot be followed: {error.strerror}", "remove it") from error
    return True
