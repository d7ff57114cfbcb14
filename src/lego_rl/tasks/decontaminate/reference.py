"""What a pool is compared with: the tasks of an evaluation set, from a file of ids or rows, or the one that is shipped.

A file is Parquet, JSON or JSON lines. A row is an object with what its set calls ``instance_id``, ``repo``,
``base_commit``, ``image``, ``problem_statement``, ``patch``; or an id, or a pair of an id and a commit. JSON may wrap
the rows in an object, as ``rows`` or ``instances``. An index of tasks is a reference too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from lego_rl.errors import TaskError
from lego_rl.tasks.index.file import Index, read_parquet
from lego_rl.tasks.index.schema import VERSION_KEY

SHIPPED = {"swe-bench-verified": "swe-bench-verified.json"}
"""References that come with Lego-RL, by name. They hold ids, repositories and base commits, and no texts."""

_REPOSITORY = ("repo", "repo_name", "repository")
_COMMIT = ("base_commit",)
_IMAGE = ("image", "image_name", "docker_image")
_ISSUE = ("problem_statement",)
_PATCH = ("patch", "golden_patch")
_PULL = ("pull_request", "pull_number")
_ROWS = ("rows", "instances")
_FIX = "name a Parquet, JSON or JSON lines file of ids or rows, an index of tasks, or " + " or ".join(SHIPPED)


@dataclass(frozen=True)
class ReferenceTask:
    """A task that must not be trained on.

    Attributes:
        instance_id: Its id.
        repo: ``owner/name`` as its set spells it.
        base_commit: Full or short.
        pull_request: Its number.
        image: Of its environment.
        issue: Its issue text.
        patch: Its gold patch.
    """

    instance_id: str
    repo: str | None = None
    base_commit: str | None = None
    pull_request: int | None = None
    image: str | None = None
    issue: str | None = None
    patch: str | None = None


def read_reference(name: str) -> list[ReferenceTask]:
    """Read a reference.

    Args:
        name: One of `SHIPPED`, or a file.

    Raises:
        TaskError: There is no such file, it cannot be read, or a row says nothing that can be compared.
    """
    if name in SHIPPED:
        text = (files(__package__) / SHIPPED[name]).read_text(encoding="utf-8")
        return _tasks(_unwrapped(json.loads(text), name), name)
    path = Path(name)
    if not path.is_file():
        raise TaskError(f"there is no reference {name}", _FIX)
    tasks = _tasks(_rows(path), name)
    if not tasks:
        raise TaskError(f"{name} holds no row to compare with", _FIX)
    return tasks


def _rows(path: Path) -> Iterable[object]:
    if path.suffix == ".parquet":
        table = read_parquet(path, _FIX)
        if (table.schema.metadata or {}).get(VERSION_KEY) is not None:
            return _index_rows(Index.read(path))
        found: list[object] = table.to_pylist()
        return found
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"cannot read {path}: {error}", _FIX) from error
    if path.suffix == ".json":
        try:
            return _unwrapped(json.loads(text), str(path))
        except (ValueError, RecursionError) as error:
            raise TaskError(f"{path} is not JSON: {error}", _FIX) from error
    return _lines(text, path)


def _lines(text: str, path: Path) -> Iterator[object]:
    """JSON lines, or bare ids."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line) if line.lstrip()[0] in '{["' else line.strip()
        except (ValueError, RecursionError) as error:
            raise TaskError(f"line {number} of {path} is not JSON: {error}", _FIX) from error


def _unwrapped(found: object, name: str) -> list[object]:
    if isinstance(found, dict):
        found = next((found[key] for key in _ROWS if key in found), None)
    if not isinstance(found, list):
        raise TaskError(f"{name} holds no list of ids or rows", _FIX)
    return found


def _index_rows(index: Index) -> Iterator[object]:
    from lego_rl.tasks.decontaminate.texts import read_texts

    texts = read_texts(index.paths)
    for row, issue, patch in zip(
        index.table.to_pylist(), texts.issues.to_pylist(), texts.patches.to_pylist(), strict=True
    ):
        yield {**row, **row["extra_info"], "problem_statement": issue, "patch": patch}


def _tasks(rows: Iterable[object], name: str) -> list[ReferenceTask]:
    return [_task(row, f"row {number} of {name}") for number, row in enumerate(rows)]


def _task(row: object, where: str) -> ReferenceTask:
    if isinstance(row, str) and row.strip():
        return ReferenceTask(row)
    if isinstance(row, list) and len(row) == 2 and all(isinstance(each, str) for each in row):
        return ReferenceTask(row[0], base_commit=row[1])
    if not isinstance(row, Mapping):
        raise TaskError(f"{where} is neither an id nor an object", _FIX)
    image, repo = _text(row, _IMAGE), _text(row, _REPOSITORY)
    name = _text(row, ("instance_id",)) or image or repo
    if name is None:
        raise TaskError(f"{where} has no instance_id, no image and no repo", _FIX)
    pull: Any = next((row[key] for key in _PULL if isinstance(row.get(key), int)), None)
    return ReferenceTask(name, repo, _text(row, _COMMIT), pull, image, _text(row, _ISSUE), _text(row, _PATCH))


def _text(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((row[name] for name in names if isinstance(row.get(name), str) and row[name].strip()), None)
