"""What a pool is compared with: the tasks of an evaluation set, from a file of ids or rows, or the one that is shipped.

A file is read as rows are that are converted (`lego_rl.tasks.rows`), or is a ``.txt`` with an id a line; a row that
cannot be read is a fault, for nothing of a reference may be left out. A row is an object with what its set calls
``instance_id``, ``repo``, ``base_commit``, ``image``, ``problem_statement``, ``patch``; or an id, or a pair of an id
and a commit. An index of tasks is a reference too.

Invariant: every row can be compared with. One of which neither a repository nor a commit nor a text is read is an
error: a task that it should have found would be called clean.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from lego_rl.errors import TaskError
from lego_rl.tasks.decontaminate.candidates import origins_of_reference
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.index.current import AGAIN, Sight
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.schema import VERSION_KEY
from lego_rl.tasks.rows.read import read_rows
from lego_rl.tasks.rows.row import Found, Unread
from lego_rl.tasks.rows.tables import parquet_file

SHIPPED = {"swe-bench-verified": "swe-bench-verified.json"}
"""References that come with Lego-RL, by name. They hold ids, repositories and base commits, and no texts."""

_REPOSITORY = ("repo", "repo_name", "repository")
_COMMIT = ("base_commit",)
_IMAGE = ("image", "image_name", "docker_image")
_ISSUE = ("problem_statement",)
_PATCH = ("patch", "golden_patch")
_PULL = ("pull_request", "pull_number", "number")
_ORGANISATION = ("org",)
_COMMIT_DIGITS = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
_FIX = (
    "name a file of ids or rows (.parquet, .arrow, .json, .jsonl; .txt with an id a line), an index of tasks, or "
    + " or ".join(SHIPPED)
)
_WRITE = "write ids as OWNER__NAME-NUMBER or OWNER/NAME#NUMBER, or give rows with repo, base_commit or texts"


def read_reference(name: str) -> list[ReferenceTask]:
    """Read a reference.

    Args:
        name: One of `SHIPPED`, or a file.

    Raises:
        TaskError: There is no such file, it cannot be read, or a row says nothing that can be compared.
    """
    if name in SHIPPED:
        with as_file(files(__package__) / SHIPPED[name]) as shipped:
            return _tasks(_rows(shipped))
    path = Path(name)
    if not path.is_file():
        raise TaskError(f"there is no reference {name}", _FIX)
    try:
        tasks = _tasks(_rows(path))
    except TaskError as error:
        raise TaskError(error.problem, error.fix if error.fix in (_WRITE, AGAIN) else _FIX) from error
    if not tasks:
        raise TaskError(f"{name} holds no row to compare with", _FIX)
    return tasks


def _rows(path: Path) -> Iterator[Found]:
    """The rows of a file, read as those that are converted."""
    match path.suffix.lower():
        case ".txt":
            return _ids(path)
        case ".parquet" if VERSION_KEY in (parquet_file(path).schema_arrow.metadata or {}):
            return _index_rows(path)
        case _:
            return read_rows([path])


def _ids(path: Path) -> Iterator[Found]:
    """One a line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}", _FIX) from error
    return (Found(f"{path}:{number}", line) for number, line in enumerate(map(str.strip, lines), start=1) if line)


def _index_rows(path: Path) -> Iterator[Found]:
    from lego_rl.tasks.decontaminate.texts import read_texts

    index = Index.read(path)
    texts = read_texts(index.paths)
    sight = Sight(index)
    sight.look(slice(None), texts.digests)
    sight.refuse_older(str(path))
    rows = zip(index.table.to_pylist(), texts.issues.to_pylist(), texts.patches.to_pylist(), strict=True)
    for number, (row, issue, patch) in enumerate(rows, start=1):
        yield Found(f"{path}:{number}", {**row, **row["extra_info"], "problem_statement": issue, "patch": patch})


def _tasks(rows: Iterable[Found]) -> list[ReferenceTask]:
    return [_comparable(_task(found.row, where := f"the row at {found.place}"), where) for found in rows]


def _comparable(task: ReferenceTask, where: str) -> ReferenceTask:
    (origin,) = origins_of_reference([task])
    names_commit = any(map(_COMMIT_DIGITS.fullmatch, origin.commits))
    if origin.is_placed or names_commit or origin.issue_digest or origin.patch_digest:
        return task
    said = task.instance_id[:80]
    raise TaskError(f"{where}, {said!r}, names no repository and no commit, and has no text to compare with", _WRITE)


def _task(row: object, where: str) -> ReferenceTask:
    if isinstance(row, Unread):
        raise TaskError(f"{where} cannot be read: {row.reason}", _FIX)
    if isinstance(row, str) and row.strip():
        return ReferenceTask(row.encode(errors="replace").decode())
    if isinstance(row, list) and len(row) == 2 and all(isinstance(each, str) for each in row):
        return ReferenceTask(row[0], base_commit=row[1])
    if not isinstance(row, Mapping):
        raise TaskError(f"{where} is neither an id nor an object", _FIX)
    image, repo, owner = _text(row, _IMAGE), _text(row, _REPOSITORY), _text(row, _ORGANISATION)
    if repo is not None and owner is not None and "/" not in repo:
        repo = f"{owner}/{repo}"
    name = _text(row, ("instance_id",)) or image or repo
    if name is None:
        raise TaskError(f"{where} has no instance_id, no image and no repo", _FIX)
    pull: Any = next((row[key] for key in _PULL if isinstance(row.get(key), int)), None)
    return ReferenceTask(name, repo, _text(row, _COMMIT), pull, image, _text(row, _ISSUE), _text(row, _PATCH))


def _text(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = next((row[name] for name in names if isinstance(row.get(name), str) and row[name].strip()), None)
    return None if found is None else found.encode(errors="replace").decode()  # JSON can spell half of a character
