"""The agent's change, computed on the host from two file trees.

Invariant: no program runs on the agent's files (git least of all: its configuration, index and ignore rules are the
agent's), no link is followed, and a path that differs is in the patch or has a reason why it is not: in `Patch.dropped`
or, where that is full, counted in `Patch.more_dropped`. Where there is room for no more, what the task's files became
comes first and then the smallest new files: what an agent has generated cannot crowd out what it has mended.
"""

import os
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lego_rl.sandbox.deadline import Deadline
from lego_rl.sandbox.not_carried import (
    GIT_DIRECTORY,
    dropped_because,
    folder_dropped_because,
    is_part_of_repository,
)
from lego_rl.sandbox.overlay import is_opaque, is_whiteout
from lego_rl.sandbox.verdict import Change, Patch

MAX_FILE_BYTES = 16 << 20
MAX_PATCH_BYTES = 64 << 20
MAX_CHANGES = 20_000
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


@dataclass(frozen=True)
class OverlaySnapshot:
    """The upper layer of a work tree's overlay, written by a sandbox that is dead.

    Attributes:
        upper: The layer's folder on the host.
        git_dirs: Paths of the git directories that the sandbox was shown in its work tree, under whatever names. The
            pristine tree has none of them, and the layer only what was changed in them.
    """

    upper: Path
    git_dirs: frozenset[str] = frozenset()

    def diff(self, pristine: Path) -> Patch:
        """What the work tree changed of the pristine one; a rename is a deletion and an addition.

        Args:
            pristine: The overlay's lower layer.

        Raises:
            SandboxError: The agent left more than can be looked at in `DIFF_SECONDS`.
        """
        comparison = Comparison(git_dirs=self.git_dirs)
        comparison.folder(self.upper, pristine, "")
        comparison.take_new()
        return comparison.patch()


@dataclass
class Comparison:
    """Collects what differs.

    ``lower`` is a path of the pristine tree that may not exist, never one behind a link. ``hidden`` says that an opaque
    folder above hides it: the kernel marks only the topmost such folder, not those that are made below it later.
    """

    changes: dict[str, Change] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    more_dropped: Counter[str] = field(default_factory=Counter)
    too_large: bool = False
    git_dirs: frozenset[str] = frozenset()
    bytes_left: int = MAX_PATCH_BYTES
    new: list[tuple[int, str, Path]] = field(default_factory=list)
    """Size, path and place of files and links where the pristine tree has nothing."""
    deadline: Deadline = field(
        default_factory=lambda: Deadline(DIFF_SECONDS, "the diff of a work tree", "lower storage_mb of the task")
    )

    def patch(self) -> Patch:
        """What was collected."""
        changes = tuple(self.changes[path] for path in sorted(self.changes))
        dropped, more = dict(sorted(self.dropped.items())), dict(sorted(self.more_dropped.items()))
        return Patch(changes, dropped, more, self.too_large)

    def folder(self, upper: Path, lower: Path | None, relative: str, *, hidden: bool = False) -> None:
        """Compare a folder of the upper layer with the folder that it lies over, ``None`` where it is new."""
        _make_accessible(upper, os.R_OK | os.X_OK, 0o700)
        hidden = hidden or is_opaque(upper)
        names = set()
        for entry in sorted(os.scandir(upper), key=lambda entry: entry.name):
            names.add(entry.name)
            if is_part_of_repository(entry.name, partial(_holds, upper), lower):
                self.drop(join(relative, entry.name), GIT_DIRECTORY)
                continue
            below = lower / entry.name if lower else None
            self.entry(Path(entry.path), below, join(relative, entry.name), hidden=hidden)
        if lower is not None and hidden:
            for path in sorted(lower.iterdir()):
                if path.name not in names:
                    self.delete(path, join(relative, path.name))

    def entry(self, upper: Path, lower: Path | None, path: str, *, hidden: bool) -> None:
        """Compare one path of the upper layer with what it lies over."""
        self.deadline.check()
        status = upper.lstat()
        if path.count("/") >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES:
            self.drop(path, "nested too deeply")
        elif is_whiteout(upper, status):
            self.delete(lower, path)
        elif (reason := self.dropped_because(path, upper.name)) is not None:
            self.drop(path, reason)
        elif stat.S_ISDIR(status.st_mode):
            self.existing_folder(upper, lower, path, hidden=hidden)
        elif stat.S_ISLNK(status.st_mode):
            self.link(upper, lower, path)
        elif stat.S_ISREG(status.st_mode):
            self.file(upper, lower, path, status)
        else:
            self.drop(path, "special file")
            self.delete(lower, path)

    def dropped_because(self, path: str, name: str) -> str | None:
        """Why a path is not carried over, whatever is there, or ``None``."""
        return GIT_DIRECTORY if path in self.git_dirs else dropped_because(name)

    def existing_folder(self, upper: Path, lower: Path | None, path: str, *, hidden: bool) -> None:
        """Compare a folder with what it lies over, unless it is of a kind that is not carried over."""
        if lower is not None and not is_folder(lower):
            self.delete(lower, path)
            lower = None
        _make_accessible(upper, os.R_OK | os.X_OK, 0o700)
        if (reason := folder_dropped_because(path, partial(_holds, upper), lower)) is not None:
            self.drop(path, reason)
        else:
            self.folder(upper, lower, path, hidden=hidden)

    def link(self, upper: Path, lower: Path | None, path: str) -> None:
        """Take a link over, later where it is new."""
        target = os.fsencode(upper.readlink())
        if _is_nothing(lower):
            self.new.append((len(target), path, upper))
        else:
            self.change(lower, Change(path, "symlink", target))

    def take_new(self) -> None:
        """Take over what is new, the smallest first, as far as there is room."""
        for size, path, upper in sorted(self.new):
            if (reason := self.no_room_for(size)) is not None:
                self.drop(path, reason)
            elif upper.is_symlink():
                self.change(None, Change(path, "symlink", os.fsencode(upper.readlink())))
            else:
                self.read(upper, None, path)

    def file(self, upper: Path, lower: Path | None, path: str, status: os.stat_result) -> None:
        """Take a regular file over, if it is not too large."""
        if status.st_size > MAX_FILE_BYTES:
            self.uncover(lower, path)
            self.drop(path, FILE_TOO_LARGE)
            return
        if _is_nothing(lower):
            self.new.append((status.st_size, path, upper))
            return
        reason = self.no_room_for(status.st_size)
        if reason is not None and not is_file_of(lower, status.st_size):
            # Not even read: sparse files and hard links cost a sandbox nothing, however many gigabytes they spell.
            self.uncover(lower, path)
            self.drop(path, reason)
            return
        self.read(upper, lower, path)

    def read(self, upper: Path, lower: Path | None, path: str) -> None:
        """Read a regular file and record what it became."""
        executable = bool(upper.lstat().st_mode & stat.S_IXUSR)
        _make_accessible(upper, os.R_OK, 0o600)
        with os.fdopen(os.open(upper, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            self.change(lower, Change(path, "file", stream.read(), executable))

    def change(self, lower: Path | None, change: Change) -> None:
        """Record a file or link that is not as it was; what was below a replaced folder is deleted."""
        if lower is not None and _as_change(lower, change.path) == change:
            return
        self.uncover(lower, change.path)
        if (reason := self.no_room_for(len(change.content))) is not None:
            self.drop(change.path, reason)
        else:
            self.bytes_left -= len(change.content)
            self.changes[change.path] = change

    def no_room_for(self, size: int) -> str | None:
        """Why the patch cannot take another change with `size` bytes of content, or ``None`` where it can."""
        if len(self.changes) >= MAX_CHANGES:
            return TOO_MANY_CHANGES
        return ALL_TOO_LARGE if size > self.bytes_left else None

    def uncover(self, lower: Path | None, path: str) -> None:
        """Record as deleted what was below a folder that something else took the place of."""
        if lower is not None and is_folder(lower):
            self.delete(lower, path)

    def delete(self, lower: Path | None, path: str) -> None:
        """Record that everything the pristine tree has at `lower` is gone."""
        if lower is None or not os.path.lexists(lower):
            return
        if (reason := dropped_because(lower.name)) is not None:
            self.drop(path, reason)
        elif is_folder(lower):
            for inner in sorted(lower.iterdir()):
                self.delete(inner, f"{path}/{inner.name}")
        else:
            self.changes[path] = Change(path, "deleted")

    def drop(self, path: str, reason: str) -> None:
        """Record that a path is not carried over, as long as the record stays of a bearable size."""
        self.too_large = self.too_large or reason in TOO_LARGE
        if path in self.dropped or len(self.dropped) < MAX_DROPPED:
            self.dropped[path] = reason
        else:
            self.more_dropped[reason] += 1


def join(folder: str, name: str) -> str:
    """A name in a folder of the tree; the tree's own folder has none."""
    return f"{folder}/{name}" if folder else name


def _holds(folder: Path, name: str) -> bool:
    return os.path.lexists(folder / name)


def _is_nothing(path: Path | None) -> bool:
    """Whether the pristine tree has nothing at a path."""
    return path is None or not os.path.lexists(path)


def is_folder(path: Path) -> bool:
    """Whether `path` is a real folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def is_file_of(path: Path | None, size: int) -> bool:
    """Whether `path` is a regular file of `size` bytes."""
    if path is None or path.is_symlink() or not path.is_file():
        return False
    return path.stat().st_size == size


def _as_change(lower: Path, path: str) -> Change | None:
    """A pristine path in the form of a change, for comparison."""
    if lower.is_symlink():
        return Change(path, "symlink", os.fsencode(lower.readlink()))
    if not lower.is_file():
        return None
    return Change(path, "file", lower.read_bytes(), bool(lower.stat().st_mode & stat.S_IXUSR))


def _make_accessible(path: Path, wanted: int, mode: int) -> None:
    """Undo a mode that would keep an ordinary user out of its own file; nobody else writes here any more."""
    with suppress(PermissionError):
        if not os.access(path, wanted, follow_symlinks=False):
            path.chmod(mode)
