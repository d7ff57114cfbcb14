"""Makes an index of task directories, Lego-RL's and those of published Harbor sets."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.index.file import Index, check_names
from lego_rl.tasks.index.task_row import index_row

_DEPTH = 3
"""Folders below the one named in which task directories are looked for: a set may lie in ``tasks/`` or by split."""


@dataclass(frozen=True)
class LeftOut:
    """A task directory that cannot be used.

    Attributes:
        path: The directory.
        reason: What is wrong with it.
    """

    path: Path
    reason: str


def build_index(
    folders: Sequence[Path], data_source: str | None = None, progress: Callable[[int, int], None] = lambda *_: None
) -> tuple[Index, list[LeftOut]]:
    """Read every task directory below folders.

    Args:
        folders: Task directories, or folders of them.
        data_source: The set that they are of, where a task does not say; by default what `set_name` says.
        progress: Is told how many are read, and of how many.

    Returns:
        The index, and what was left out of it.

    Raises:
        TaskError: A folder holds no task directory, none of them can be used, or two are the same task or of
            one name.
    """
    found = [(folder, path) for folder in folders for path in task_folders(folder)]
    rows, left_out = [], []
    for number, (folder, path) in enumerate(found):
        try:
            row = index_row(path.resolve(), data_source or set_name(folder))
            "\0".join(filter(None, (str(row.path), row.instance_id, row.data_source))).encode()
            rows.append(row)
        except TaskError as error:
            left_out.append(LeftOut(path, error.problem))
        except OSError as error:
            left_out.append(LeftOut(path, f"{error.filename} cannot be read: {error.strerror}"))
        except UnicodeEncodeError:
            left_out.append(LeftOut(path, "its name, or something that it says, is no text"))
        progress(number + 1, len(found))
    if not rows:
        raise TaskError(f"no task directory of {len(found)} can be used: {left_out[0].reason}", "mend them")
    index = Index.of(rows)
    check_names(index.paths)
    return index, left_out


def set_name(place: Path) -> str:
    """What the set of a place's tasks is called where neither they nor anybody else says: the folder that holds them.

    Args:
        place: A task directory, or a folder of them.
    """
    whole = place.resolve()
    return whole.parent.name if (whole / "task.toml").is_file() else whole.name


def task_folders(folder: Path) -> list[Path]:
    """The task directories below a folder, sorted.

    Raises:
        TaskError: There is none.
    """
    found = sorted(_below(folder, _DEPTH)) if folder.is_dir() else []
    if not found:
        raise TaskError(f"{folder} holds no task directories", "name a folder of folders with a task.toml each")
    return found


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "task.toml").is_file():
        yield folder
    elif depth:
        for path in folder.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                yield from _below(path, depth - 1)
