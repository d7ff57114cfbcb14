"""What no agent may see of a task, by what is in it: its hidden tests, what else verifies, and its solution.

Invariant: a file counts wherever an equal one lies and whatever it is called there. What a task shows by itself does
not: a file that its work tree has at the same path, and what ``[metadata] visible`` names. Data of a script task that
is not called like an answer does not either: such tasks keep a copy of their input beside the tests.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from lego_rl.tasks.task import Task, TestSpec
from lego_rl.tasks.test_patch import TEST_PATCH, deciding_files, patch_of, patched_files

MIN_BYTES = 64
"""Of a file that counts without a FAIL_TO_PASS test in it; a shorter one may be equal to another by chance."""
MAX_BYTES = 16 << 20
"""Of a file that is compared at all: nothing larger is a test or a patch."""

_GENERIC = ("__init__.", "license", "licence", "copying", "readme", "conftest.", "requirements", ".git")
"""How names begin of files that are equal in many places."""
_PROGRAMS = frozenset({".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".go", ".rs", ".java", ".c", ".cpp"})
_ANSWERS = ("expected", "golden", "solution", "answer", "oracle", "reference")
"""How data is called that a verifier compares with."""


@dataclass(frozen=True)
class HiddenFile:
    """One file.

    Attributes:
        name: Its path in the task directory.
        size: Of its content, in bytes.
        sha256: The content's digest, in hexadecimal digits.
    """

    name: str
    size: int
    sha256: str


def hidden_files(task: Task, pristine: Path) -> tuple[HiddenFile, ...]:
    """The files of a task that must not be in what an agent can read.

    Args:
        task: The task.
        pristine: Its pristine work tree.

    Raises:
        OSError: A file of the task cannot be read.
        TaskError: ``tests/test.patch`` does not fit the work tree.
    """
    found = {name: place for name, place in _candidates(task, pristine) if name not in task.visible}
    files = [HiddenFile(name, *digest_of(place)) for name, place in sorted(found.items())]
    return (*files, *_patched(task, pristine))


def _patched(task: Task, pristine: Path) -> Iterator[HiddenFile]:
    """What ``tests/test.patch`` makes of the files that decide."""
    name = f"tests/{TEST_PATCH}"
    if (patch := patch_of(task.path)) is None or name in task.visible or not isinstance(task.tests, TestSpec):
        return
    deciding = deciding_files(task.tests.test_files, task.tests.fail_to_pass)
    for file in patched_files(patch, pristine):
        if file.content and file.path in deciding:
            yield HiddenFile(f"{name} ({file.path})", len(file.content), hashlib.sha256(file.content).hexdigest())


def _candidates(task: Task, pristine: Path) -> Iterator[tuple[str, Path]]:
    tests, solution = task.path / "tests", task.path / "solution"
    if isinstance(task.tests, TestSpec):
        deciding = deciding_files(task.tests.test_files, task.tests.fail_to_pass)
        for name, place in _files(tests / "files"):
            is_test = PurePosixPath(name).name.startswith("test") or name.endswith("_test.py")
            if name in deciding or (is_test and _counts(place) and not _is_shown(place, pristine / name)):
                yield f"tests/files/{name}", place
    for name, place in _files(tests):
        if isinstance(task.tests, TestSpec) and name.startswith("files/"):
            continue
        deciding_script = not isinstance(task.tests, TestSpec) and place.name.startswith("test")
        if deciding_script or (_counts(place) and _verifies(place)):
            yield f"tests/{name}", place
    for name, place in _files(solution):
        if _counts(place) and not _is_shown(place, pristine / name.removeprefix("files/")):
            yield f"solution/{name}", place


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for place in folder.rglob("*"):
        if place.is_file() and 0 < place.stat().st_size <= MAX_BYTES:
            yield place.relative_to(folder).as_posix(), place


def _counts(place: Path) -> bool:
    return place.stat().st_size >= MIN_BYTES and not place.name.casefold().startswith(_GENERIC)


def _verifies(place: Path) -> bool:
    name = place.name.casefold()
    return place.suffix in _PROGRAMS or name in ("spec.json", TEST_PATCH) or any(word in name for word in _ANSWERS)


def _is_shown(place: Path, shown: Path) -> bool:
    """Whether a task's work tree has the same file at the path that it is for."""
    return shown.is_file() and not shown.is_symlink() and digest_of(place) == digest_of(shown)


def digest_of(place: Path) -> tuple[int, str]:
    """The size of a file in bytes, and the digest of its content in hexadecimal digits."""
    status = place.stat()
    # An edited file has another time or another number, and is read again.
    return status.st_size, _sha256(os.fspath(place), status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=65_536)
def _sha256(place: str, _inode: int, _size: int, _changed: int) -> str:
    with Path(place).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
