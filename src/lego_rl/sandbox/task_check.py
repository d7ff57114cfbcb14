"""What a trial of a task would be refused for in an environment, found for a whole pool before a run begins.

Invariant: nothing is copied, built or started. What only a sandbox can tell, such as a hole in an image, is left to it.
"""

import os
import stat
from pathlib import Path

from lego_rl.errors import TaskError, UnservedTaskError
from lego_rl.sandbox.copies import copied, recipe_of
from lego_rl.sandbox.dockerfile import NeedsBuildError
from lego_rl.sandbox.hole import HoleKind
from lego_rl.sandbox.provider import Provider
from lego_rl.sandbox.seal import WAYS_OUT
from lego_rl.tasks.hidden_content import HiddenFile, digest_of, hidden_files
from lego_rl.tasks.task import Task
from lego_rl.tasks.usable import check_usable


def check_task(task: Task, provider: Provider) -> None:
    """See that trials of a task can be run here, as far as its files tell.

    Args:
        task: As it was read.
        provider: How sandboxes are isolated.

    Raises:
        TaskError: It is incomplete, contradicts itself, or shows the agent what is to be hidden.
        UnservedTaskError: It asks for what this environment does not do.
        SandboxError: An image that it starts from is not here.
    """
    check_usable(task)
    try:
        provider.check_network(task.network)
    except UnservedTaskError as error:
        raise UnservedTaskError(f"task {task.id} cannot be graded here: {error.problem}", error.fix) from error
    provider.check_image(task.path / "environment", workdir=task.workdir, docker_image=task.docker_image)
    _check_hidden(task)


def _check_hidden(task: Task) -> None:
    tree = _work_tree(task)
    if tree is None:
        return
    hidden = {(each.size, each.sha256): each for each in hidden_files(task, tree)}
    sizes = {each.size for each in hidden.values()}
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name != ".git"]
        for place in (Path(folder, name) for name in names):
            status = place.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size in sizes and (found := hidden.get(digest_of(place))):
                raise TaskError(_shown(task, place, found), WAYS_OUT[HoleKind.SHOWN])


def _work_tree(task: Task) -> Path | None:
    """The folder of the task that is its work tree as it stands, if that is how it is made."""
    environment = task.path / "environment"
    if task.docker_image is not None and not (environment / "repo").is_dir():
        return None
    try:
        recipe = recipe_of(environment, task.workdir)
        sources = copied(environment, recipe)
    except (NeedsBuildError, TaskError):  # what its image is made of is not known, or it names an image
        return None
    return next((source for source, target in sources if target == "." and source.is_dir()), None)


def _shown(task: Task, place: Path, found: HiddenFile) -> str:
    return f"task {task.id} shows the agent {place.relative_to(task.path)}, which is its {found.name}"
