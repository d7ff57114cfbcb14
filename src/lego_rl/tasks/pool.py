"""A pool: a folder of Harbor task directories, each of which says in ``[metadata] split`` which split it belongs to."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.build import build_pool, pool_tasks, task_texts
from lego_rl.tasks.task import Task

BUILTIN = "builtin"
"""The name of the pool that is generated at use."""


def pool_folder(pool: str, cache: Path) -> Path:
    """The folder of a pool as a recipe names it.

    Args:
        pool: ``builtin``, or a folder.
        cache: Where the built-in pool is generated, once for each version of the generator.

    Raises:
        TaskError: There is no such folder, or the built-in pool cannot be written.
    """
    if pool != BUILTIN:
        folder = Path(pool)
        if not folder.is_dir():
            raise TaskError(f"there is no task pool at {folder}", f"name a folder of task directories, or {BUILTIN!r}")
        return folder
    folder = cache / f"builtin-{pool_digest(pool_tasks())}"
    if not folder.exists():
        try:
            build_pool(folder)
        except TaskError:  # another process finished the same folder first
            if not folder.exists():
                raise
    return folder


def load_pool(folder: Path) -> dict[str, tuple[Task, ...]]:
    """Load every task of a pool.

    Returns:
        Split → its tasks in the order of their ids.

    Raises:
        TaskError: The folder holds no task, or a task is incomplete; the message names what is missing.
    """
    if not folder.is_dir():
        raise TaskError(f"there is no task pool at {folder}", "build one with: lego-rl tasks build --out DIR")
    splits: dict[str, list[Task]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            task = Task.load(path)
            splits[task.split].append(task)
    if not splits:
        raise TaskError(f"{folder} holds no task directories", "build some with: lego-rl tasks build --out DIR")
    return {split: tuple(tasks) for split, tasks in splits.items()}


def pool_digest(tasks: Iterable[BugTask]) -> str:
    """Names a generated pool by every byte that `build_pool` writes of it: a change of any makes another folder."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps([task.id, task_texts(task)], sort_keys=True).encode())
    return digest.hexdigest()[:12]
