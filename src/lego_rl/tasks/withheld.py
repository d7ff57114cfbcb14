"""What no history may give away: the files of a task's hidden tests and of its solution, by the ids git gives them."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lego_rl.tasks.test_patch import made_files, patch_of

SHORTEST = 10
"""Digits of an abbreviated id, below which another file of a large history may have it by chance."""
PATCH_INDEX = re.compile(rb"^index [0-9a-f]+\.\.([0-9a-f]+)", re.MULTILINE)
"""The line of a patch that names a file's content before and after (git-diff, "Generating patch text")."""


def withheld_files(task: Path, deciding: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Ids, some of them abbreviated, with the paths in the task directory that they come from; sorted.

    Args:
        task: The task directory.
        deciding: The test files that hold a FAIL_TO_PASS test, relative to the work tree.
    """
    return tuple(sorted(set(_found(task, deciding))))


def blob_id(content: bytes) -> str:
    """The id that git gives a file with this content (gitformat-loose-object: a header and the content, hashed)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _found(task: Path, deciding: Iterable[str]) -> Iterator[tuple[str, str]]:
    solution = task / "solution"
    for path in (*(task / "tests" / "files" / name for name in deciding), *(solution / "files").rglob("*")):
        if path.is_file() and (content := path.read_bytes()):  # Every history has an empty file.
            yield blob_id(content), str(path.relative_to(task))
    patch = patch_of(task)
    if patch is not None:
        made = made_files(patch)
        for name in deciding:
            if made.get(name):
                yield blob_id(made[name]), str(patch.relative_to(task))
    for path in (*(() if patch is None else (patch,)), *solution.glob("*.patch"), *solution.glob("*.diff")):
        for name in PATCH_INDEX.findall(path.read_bytes()):
            if len(name) >= SHORTEST and name.strip(b"0"):
                yield name.decode(), str(path.relative_to(task))
