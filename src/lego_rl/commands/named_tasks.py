"""Task directories as a command line names them: by an index, a folder of them, or one by one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.index.build import task_folders
from lego_rl.tasks.index.current import check_current
from lego_rl.tasks.index.file import Index, is_index


def named_tasks(places: Sequence[Path]) -> list[Path]:
    """The task directories that some places name, in their order.

    Args:
        places: Index files, folders of task directories, or task directories.

    Raises:
        TaskError: A place names none, or two are of one name.
    """
    found = [task for place in places for task in _tasks(place)]
    by_name: dict[str, Path] = {}
    for task in found:
        other = by_name.setdefault(task.name, task)
        if other is not task:
            raise TaskError(f"{other} and {task} are both called {task.name}", "name one of them")
    return found


def check_indexes(places: Sequence[Path], contents: Mapping[Path, str]) -> None:
    """See that the indexes among some places are of their tasks as they are.

    Args:
        places: Index files, folders of task directories, or task directories.
        contents: Task directory → digest of what it holds; one that is missing is not compared.

    Raises:
        TaskError: One is older than its tasks.
    """
    for place in filter(is_index, places):
        check_current(place, Index.read(place), contents)


def _tasks(place: Path) -> list[Path]:
    return Index.read(place).paths if is_index(place) else task_folders(place)
