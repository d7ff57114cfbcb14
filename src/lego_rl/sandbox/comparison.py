"""What a patch takes of a tree that a sandbox left, whichever way the tree is known: the one rule for it.

Invariant: no program runs on the agent's files (git least of all: its configuration, index and ignore rules are the
agent's), no link is followed, and a path that differs is in the patch or has a reason why it is not: in `Patch.dropped`
or, where that is full, counted in `Patch.more_dropped`. Where there is room for no more, what the task's files became
comes first and then the smallest new files and links: what an agent has generated cannot crowd out what it has mended.
What it has deleted takes no room, for there is no more of it than the task brought.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from lego_rl.sandbox.build_products import Has, product_because, product_folder_because
from lego_rl.sandbox.deadline import Deadline
from lego_rl.sandbox.look.files import BARE
from lego_rl.sandbox.not_carried import (
    GIT_DIRECTORY,
    Holds,
    dropped_because,
    folder_dropped_because,
    is_part_of_repository,
    makes_repository,
)
from lego_rl.sandbox.verdict import Change, Patch

MAX_FILE_BYTES = 16 << 20
MAX_PATCH_BYTES = 64 << 20
MAX_CHANGES = 20_000
"""Files and links that a patch brings; what it deletes does not count."""
MAX_DROPPED = 1_000
MAX_DEPTH = 100
MAX_PATH_BYTES = 2_048
DIFF_SECONDS = 300.0
"""How long a diff may take: how many files there are to look at is the agent's to choose, within its disk limit."""

FILE_TOO_LARGE = f"larger than {MAX_FILE_BYTES >> 20} MiB"
TOO_MANY_CHANGES = f"more than {MAX_CHANGES} changes"
ALL_TOO_LARGE = f"changes larger than {MAX_PATCH_BYTES >> 20} MiB together"
TOO_LARGE = frozenset({FILE_TOO_LARGE, TOO_MANY_CHANGES, ALL_TOO_LARGE})
"""Reasons for which a path is left out that another size of the change would not have."""
UNREADABLE = "not readable"


@dataclass(frozen=True)
class Found:
    """What a sandbox left at a path.

    Attributes:
        path: Relative to the work tree.
        kind: What it is; ``deleted`` where nothing is left of what the pristine tree has there.
        size: Bytes of a file, or of the target of a link.
        executable: Whether a file has its execute bit set.
        is_readable: Whether what is in it can be had.
    """

    path: str
    kind: Literal["file", "symlink", "directory", "special", "deleted"]
    size: int = 0
    executable: bool = False
    is_readable: bool = True


class LeftTree(Protocol):
    """A work tree as a dead sandbox left it. Paths are relative to it; its own folder is the empty one."""

    def names(self, folder: str) -> Set[str]:
        """Names in a folder, in order."""
        ...

    def hides(self, folder: str) -> bool:
        """Whether what the pristine tree has in a folder is gone where the folder has no such name."""
        ...

    def found(self, path: str) -> Found:
        """What is at a path."""
        ...

    def is_as(self, found: Found, lower: Path) -> bool:
        """Whether a file or link has the content of a pristine one of the same kind, size and execute bit."""
        ...


class Comparison:
    """Collects what differs.

    ``lower`` is a path of the pristine tree that may not exist, never one behind a link; ``None`` where the folder that
    it would be in is new. ``hidden`` says that what the pristine tree has in a folder is gone: a tree may say so of the
    topmost such folder only.

    Args:
        tree: What the sandbox left.
        pristine: What it started with.
        git_dirs: Paths of the git directories that the sandbox was shown in its work tree, under whatever names.

    Attributes:
        changes: What the patch takes, by path.

    Raises:
        SandboxError: There is more than can be looked at in `DIFF_SECONDS`.
    """

    def __init__(self, tree: LeftTree, pristine: Path, git_dirs: frozenset[str] = frozenset()) -> None:
        self.changes: dict[str, Found] = {}
        self._tree, self._pristine = tree, pristine
        self._git_dirs = git_dirs
        self._dropped: dict[str, str] = {}
        self._more_dropped: Counter[str] = Counter()
        self._too_large = False
        self._listed: tuple[str | None, Set[str]] = None, frozenset()
        self._bytes_left, self._changes_left = MAX_PATCH_BYTES, MAX_CHANGES
        self._new: list[Found] = []
        self._deadline = Deadline(DIFF_SECONDS, "the diff of a work tree", "lower storage_mb of the task")
        self._below("", pristine, tree.names(""), hidden=False)
        for found in sorted(self._new, key=lambda found: (found.size, found.path)):
            self._take(None, found)

    def patch(self, content: Callable[[Found], bytes]) -> Patch:
        """What was collected.

        Args:
            content: The content of a file, or the target of a link, that the patch takes.
        """
        changes = []
        for _, found in sorted(self.changes.items()):
            assert found.kind in ("file", "symlink", "deleted")
            what = b"" if found.kind == "deleted" else content(found)
            changes.append(Change(found.path, found.kind, what, found.executable))
        dropped, more = dict(sorted(self._dropped.items())), dict(sorted(self._more_dropped.items()))
        return Patch(tuple(changes), dropped, more, self._too_large)

    def _below(self, folder: str, lower: Path | None, names: Set[str], *, hidden: bool) -> None:
        """Compare what is in a folder with what the pristine one holds."""
        hidden = hidden or self._tree.hides(folder)
        holds = self._holds(folder, names)
        for name in names:
            path = f"{folder}/{name}" if folder else name
            if is_part_of_repository(name, holds, lower):
                self._drop(path, GIT_DIRECTORY)
            else:
                self._path(path, name, lower / name if lower is not None else None, hidden=hidden)
        if lower is not None and hidden:
            for each in sorted(lower.iterdir()):
                if each.name not in names:
                    self._delete(each, f"{folder}/{each.name}" if folder else each.name)

    def _holds(self, folder: str, names: Set[str]) -> Holds:
        def holds(name: str) -> bool:
            if name not in BARE or name not in names:
                return name in names
            found = self._tree.found(f"{folder}/{name}" if folder else name)
            return makes_repository(name, found.kind, found.size)

        return holds

    def _beside(self, path: str) -> Has:
        """What is in the folder of a path, the task's own among it."""
        folder = path.rpartition("/")[0]

        def holds(name: str) -> bool:
            if self._listed[0] != folder:
                self._listed = folder, self._tree.names(folder)
            return name in self._listed[1] or os.path.lexists(self._pristine / folder / name)

        return holds

    def _path(self, path: str, name: str, lower: Path | None, *, hidden: bool) -> None:
        self._deadline.check()
        if path.count("/") >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES:
            self._drop(path, "nested too deeply")
            return
        found = self._tree.found(path)
        if found.kind == "deleted":
            self._delete(lower, path)
        elif (reason := GIT_DIRECTORY if path in self._git_dirs else dropped_because(name)) is not None:
            self._drop(path, reason)
        elif found.kind == "directory":
            self._folder(found, lower, hidden=hidden)
        elif found.kind == "special":
            self._drop(path, "special file")
            self._delete(lower, path)
        else:
            self._file_or_link(found, lower)

    def _folder(self, found: Found, lower: Path | None, *, hidden: bool) -> None:
        """Compare a folder with what the pristine tree has there, unless it is of a kind that is not carried over."""
        if not found.is_readable:
            self._drop(found.path, UNREADABLE)
            return
        if lower is not None and not is_folder(lower):
            self._delete(lower, found.path)
            lower = None
        names = self._tree.names(found.path)
        holds = self._holds(found.path, names)
        reason = folder_dropped_because(found.path, holds, lower, self._pristine)
        if reason is None and lower is None:
            reason = product_folder_because(found.path, holds, self._beside(found.path))
        if reason is not None:
            self._drop(found.path, reason)
        else:
            self._below(found.path, lower, names, hidden=hidden)

    def _file_or_link(self, found: Found, lower: Path | None) -> None:
        """Take what is not as it was, later where it is new."""
        is_new = lower is None or not os.path.lexists(lower)
        if is_new and (reason := product_because(found.path, self._beside(found.path))) is not None:
            self._drop(found.path, reason)
        elif found.size > MAX_FILE_BYTES or not found.is_readable:
            self._uncover(lower, found.path)
            self._drop(found.path, FILE_TOO_LARGE if found.size > MAX_FILE_BYTES else UNREADABLE)
        elif is_new:
            self._new.append(found)
        elif lower is not None and not (_is_like(found, lower) and self._tree.is_as(found, lower)):
            self._take(lower, found)

    def _take(self, lower: Path | None, found: Found) -> None:
        """Take a file or link, as far as there is room: what the patch cannot take is not even read."""
        self._uncover(lower, found.path)
        if not self._changes_left:
            self._drop(found.path, TOO_MANY_CHANGES)
        elif found.size > self._bytes_left:
            self._drop(found.path, ALL_TOO_LARGE)
        else:
            self._bytes_left -= found.size
            self._changes_left -= 1
            self.changes[found.path] = found

    def _uncover(self, lower: Path | None, path: str) -> None:
        """Record as deleted what was below a folder that something else took the place of."""
        if lower is not None and is_folder(lower):
            self._delete(lower, path)

    def _delete(self, lower: Path | None, path: str) -> None:
        """Record that everything the pristine tree has at `lower` is gone."""
        if lower is None or not os.path.lexists(lower):
            return
        if (reason := dropped_because(lower.name)) is not None:
            self._drop(path, reason)
        elif is_folder(lower):
            for inner in sorted(lower.iterdir()):
                self._delete(inner, f"{path}/{inner.name}")
        else:
            self.changes[path] = Found(path, "deleted")

    def _drop(self, path: str, reason: str) -> None:
        """Record that a path is not carried over, as long as the record stays of a bearable size."""
        self._too_large = self._too_large or reason in TOO_LARGE
        if path in self._dropped or len(self._dropped) < MAX_DROPPED:
            self._dropped[path] = reason
        else:
            self._more_dropped[reason] += 1


def is_folder(path: Path) -> bool:
    """Whether `path` is a real folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def _is_like(found: Found, lower: Path) -> bool:
    """Whether a pristine path is of the kind, size and execute bit of what was found."""
    status = lower.lstat()
    if found.kind == "symlink":
        return stat.S_ISLNK(status.st_mode) and status.st_size == found.size
    is_executable = bool(status.st_mode & stat.S_IXUSR)
    return stat.S_ISREG(status.st_mode) and status.st_size == found.size and is_executable == found.executable
