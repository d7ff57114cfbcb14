"""Whether an index is still of the tasks that it names.

Invariant: what is run, or called clean, is what the index was made from. A task directory that was converted or made
again, or edited, under the same name is none that the index knows anything of.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.content import naming_digest
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.task import Task

AGAIN = "run lego-rl tasks index DIR --out FILE again, and decontaminate what it writes"

_SHOWN = 3
_THREADS = 4
_AT_ONCE = 256


def refuse_older(index: str, changed: Sequence[str], tasks: int) -> None:
    """Refuse an index some of whose tasks were changed after it was made.

    Args:
        index: Its name.
        changed: Ids of those tasks.
        tasks: How many it has.

    Raises:
        TaskError: There is one.
    """
    if changed:
        raise TaskError(f"{index} is older than its tasks: {len(changed)} of {tasks}, {named(changed)}", AGAIN)


def check_current(file: Path, index: Index, contents: Mapping[Path, str]) -> None:
    """See that the tasks of an index are, to the byte, those that it was made from.

    Args:
        file: Where it was read from.
        index: The index.
        contents: Task directory → digest of what it holds now; one that is missing is not compared.

    Raises:
        TaskError: Some are not.
    """
    said = zip(index.ids, index.paths, index.column("content_digest").to_pylist(), strict=True)
    changed = [
        name for name, path, digest in said if digest is not None and contents.get(path, digest) != digest
    ]  # fmt: skip
    refuse_older(str(file), changed, len(index))


class Sight:
    """What is seen of the tasks of an index by whoever compares it, part by part.

    Args:
        index: The index.

    Attributes:
        missing: Tasks whose directories are not there, which the index was taken at its word for.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ids, self._paths = index.ids, index.paths
        self._naming, self._texts = (index.column(name).to_pylist() for name in ("naming_digest", "texts_digest"))
        self._changed: list[str] = []
        self.missing = 0

    def look(self, part: slice, texts: Sequence[str | None] | None) -> None:
        """Look at some tasks.

        Args:
            part: Which of them.
            texts: Digests of their texts, where those were read.

        Raises:
            TaskError: A file cannot be read.
        """
        naming = naming_digests(self._paths[part])
        self.missing += naming.count(None)
        now = zip(naming, texts if texts is not None else [None] * len(naming), strict=True)
        said = zip(self._naming[part], self._texts[part], strict=True)
        for name, pair, before in zip(self._ids[part], now, said, strict=True):
            if any(None not in each and each[0] != each[1] for each in zip(pair, before, strict=True)):
                self._changed.append(name)

    def refuse_older(self, index: str) -> None:
        """See that none was changed, of those that were looked at.

        Args:
            index: What the index is called.

        Raises:
            TaskError: Some were.
        """
        refuse_older(index, self._changed, len(self._index))


def contents_of(tasks: Iterable[Task]) -> dict[Path, str]:
    """Task directory → digest of what it holds.

    Raises:
        TaskError: A file cannot be read.
    """
    tasks = list(tasks)
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip((task.path for task in tasks), pool.map(lambda task: task.content_digest, tasks), strict=True))


def naming_digests(folders: Sequence[Path]) -> list[str | None]:
    """``[tasks]`` of the files that say where each comes from; ``None`` where its directory is not there.

    Raises:
        TaskError: A file cannot be read.
    """
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            parts = pool.map(lambda part: list(map(naming_digest, part)), batched(folders, _AT_ONCE))
            return [digest for part in parts for digest in part]
    except OSError as error:
        raise TaskError(f"{error.filename} cannot be read: {error.strerror}", "make it readable by you") from error


def named(ids: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more
