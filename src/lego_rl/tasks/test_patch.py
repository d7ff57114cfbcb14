"""``tests/test.patch``: hidden tests as a change of the work tree, for tasks whose base files only their image has.

Invariant: what grading writes is the pristine file with the patch applied to the letter, made on the host; a patch that
does not fit is an error of the task, never tests that are half there.
"""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.tasks.unified_diff import BaseFile, DiffError, FileDiff, PatchedFile, ReadBase, apply_diff, read_diff

TEST_PATCH = "test.patch"
"""Its name in ``tests/``."""
_DATA = (".json", ".csv", ".txt", ".md", ".rst", ".yml", ".yaml", ".toml", ".xml", ".png", ".jpg", ".jpeg", ".pkl")
_OF_TESTS = frozenset({"test", "tests", "testing", "spec", "specs", "e2e"})
"""Words in the paths where RSpec, Jest, Cargo, Maven, PHPUnit and their like look for tests."""
_NO_WORD = re.compile(r"[^a-z0-9]+")


def patch_of(task: Path) -> Path | None:
    """The patch of a task directory, if it has one."""
    path = task / "tests" / TEST_PATCH
    return path if path.is_file() else None


def patched_paths(patch: Path) -> tuple[str, ...]:
    """Every path that a patch makes, changes or deletes, sorted.

    Raises:
        TaskError: It cannot be read as a patch of files in a work tree.
    """
    return tuple(sorted(path for file in _read(patch) for path in file.paths))


def patched_files(patch: Path, pristine: Path) -> list[PatchedFile]:
    """The hidden tests that a patch makes of a pristine work tree.

    Raises:
        TaskError: It cannot be read, or does not fit the tree.
    """
    try:
        return apply_diff(patch.read_bytes(), base_reader(pristine))
    except (DiffError, OSError) as error:
        raise TaskError(
            f"the hidden tests of task {patch.parent.parent.name} cannot be made: {patch.name} {error}",
            "give the task the image that its patch belongs to, or leave the task out",
        ) from error


def made_files(patch: Path) -> dict[str, bytes]:
    """The files that a patch makes anew: path → content. No work tree is needed for them.

    Raises:
        TaskError: It cannot be read as a patch of files in a work tree.
    """
    files = ((file.after, file.made()) for file in _read(patch))
    return {path: content for path, content in files if path is not None and content is not None}


def deciding_files(test_files: Iterable[str], fail_to_pass: Iterable[str]) -> frozenset[str]:
    """The test files that hold a FAIL_TO_PASS test.

    Those that the ids name; or, where ids are no paths, as Django's, Go's and most others' are not, those that are
    called like tests or lie where tests do, and are no data; or all of them, where nothing tells.
    """
    files = frozenset(test_files)
    named = files & {test.partition("::")[0] for test in fail_to_pass}
    return named or frozenset(filter(_is_like_test, files)) or files


def _is_like_test(path: str) -> bool:
    *folders, name = path.lower().split("/")
    if name.endswith(_DATA):
        return False
    words = {word for folder in folders for word in _NO_WORD.split(folder)} | set(_NO_WORD.split(name))
    return "test" in name or not _OF_TESTS.isdisjoint(words)


def base_reader(pristine: Path) -> ReadBase:
    """Reads files of a work tree, through no link.

    Raises:
        DiffError: When it is asked for a path that is a link or a folder, or lies behind one.
    """

    def read(path: str) -> BaseFile | None:
        place = pristine
        for part in path.split("/"):
            if place.is_symlink():
                raise DiffError(f"changes {path}, which lies behind a link")
            place /= part
        if not os.path.lexists(place):
            return None
        if place.is_symlink() or not place.is_file():
            raise DiffError(f"changes {path}, which is a link or a folder")
        return BaseFile(place.read_bytes(), bool(place.stat().st_mode & stat.S_IXUSR))

    return read


def _read(patch: Path) -> tuple[FileDiff, ...]:
    try:
        return read_diff(patch.read_bytes())
    except (DiffError, OSError) as error:
        raise TaskError(f"{patch} {error}", "mend the patch, or bring the hidden tests as tests/files/") from error
