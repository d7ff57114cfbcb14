"""A pool: a folder of Harbor task directories, each of which says in ``[metadata] split`` which split it belongs to, or
an index of such directories, which says it in their place. Which directories a folder holds is the same for everybody
(`tasks.index.build.task_folders`)."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.build import build_pool, pool_tasks, task_texts
from lego_rl.tasks.index.build import task_folders
from lego_rl.tasks.index.current import check_current, contents_of
from lego_rl.tasks.index.file import Index, check_names, is_index
from lego_rl.tasks.task import Task

BUILTIN = "builtin"
"""The name of the pool that is generated at use."""


def pool_place(pool: str, cache: Path) -> Path:
    """The folder or the index of a pool as a recipe names it.

    Args:
        pool: ``builtin``, a folder, or an index.
        cache: Where the built-in pool is generated, once for each version of the generator.

    Raises:
        TaskError: There is no such folder or index, or the built-in pool cannot be written.
    """
    if pool != BUILTIN:
        place = Path(pool)
        if not place.is_dir() and not (is_index(place) and place.is_file()):
            raise TaskError(
                f"there is no task pool at {place}", f"name a folder of task directories, an index, or {BUILTIN!r}"
            )
        return place
    folder = cache / f"builtin-{pool_digest(pool_tasks())}"
    if not folder.exists():
        try:
            build_pool(folder)
        except TaskError:  # another process finished the same folder first
            if not folder.exists():
                raise
    return folder


def load_pool(place: Path) -> dict[str, tuple[Task, ...]]:
    """Load every task of a pool.

    Args:
        place: A folder, or an index.

    Returns:
        Split → its tasks in the order of their ids.

    Raises:
        TaskError: The pool holds no task, a task is incomplete, two directories have one name, or an index is older
            than its tasks; the message names what is missing, or which.
    """
    splits: dict[str, list[Task]] = defaultdict(list)
    for task in _of_index(place) if is_index(place) else _of_folder(place):
        splits[task.split].append(task)
    if not splits:
        raise TaskError(
            f"{place} holds no tasks",
            "name one that does; a filter that keeps nothing has a band, and a policy, to which no task fits",
        )
    return {split: tuple(tasks) for split, tasks in splits.items()}


def _of_folder(folder: Path) -> list[Task]:
    if not folder.is_dir():
        raise TaskError(f"there is no task pool at {folder}", "build one with: lego-rl tasks build --out DIR")
    paths = task_folders(folder)
    check_names(paths)
    return sorted(map(Task.load, paths), key=lambda task: task.id)


def _of_index(file: Path) -> list[Task]:
    index = Index.read(file)
    said = zip(index.paths, index.info("split"), strict=True)
    tasks = [replace(Task.load(path), split=split) for path, split in said]
    check_current(file, index, contents_of(tasks))
    return tasks


def pool_digest(tasks: Iterable[BugTask]) -> str:
    """Names a generated pool by every byte that `build_pool` writes of it: a change of any makes another folder."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps([task.id, task_texts(task)], sort_keys=True).encode())
    return digest.hexdigest()[:12]
