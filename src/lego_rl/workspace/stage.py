"""A copy of what an agent is handed, which is all that it ever sees of a workspace.

Invariant: the workspace is only read. The copy has one commit of everything, so that the agent can compare with it, and
nothing of the workspace's own history.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dulwich import porcelain
from dulwich.repo import Repo

from lego_rl.errors import ConfigError
from lego_rl.workspace.listing import Listing

_AUTHOR = b"lego-rl <lego-rl@localhost>"
MOST_BYTES = 4 << 30
_COMMITTED_BYTES = 64 << 20
"""Up to where a commit of everything is made: git of an agent that has more to look at finds nothing committed."""


@dataclass(frozen=True)
class Entry:
    """What is at a path.

    Attributes:
        kind: ``file`` or ``symlink``.
        digest: SHA-256 of a file's content, or of a link's target.
        executable: Whether a file may be executed.
    """

    kind: str
    digest: str
    executable: bool


@dataclass(frozen=True)
class Staged:
    """What was handed over.

    Attributes:
        entries: Path → what was there.
        size: Bytes of all files.
    """

    entries: Mapping[str, Entry]
    size: int


def stage(root: Path, listing: Listing, target: Path) -> Staged:
    """Copy what is handed over.

    Args:
        root: The workspace.
        listing: What of it.
        target: An empty folder.

    Raises:
        ConfigError: It is more than a sandbox is given, nothing at all, or cannot be read.
    """
    if not listing.files:
        raise ConfigError(f"{root} holds no file to work on", "name a folder with files in it")
    entries: dict[str, Entry] = {}
    size = 0
    try:
        for path in listing.files:
            source, copy = root / path, target / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                copy.symlink_to(source.readlink())
            else:
                size += source.stat().st_size
                if size > MOST_BYTES:
                    raise ConfigError(
                        f"{root} holds more than {MOST_BYTES >> 30} GiB to hand over",
                        "name a folder in it, or ignore more",
                    )
                shutil.copyfile(source, copy)
                copy.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644)
            entries[path] = entry_of(copy)
    except OSError as error:
        raise ConfigError(f"the workspace cannot be copied: {error}", "make its files readable") from error
    if size <= _COMMITTED_BYTES:
        _commit(target)
    return Staged(entries, size)


def entry_of(path: Path) -> Entry:
    """What is at a path, a file or a link.

    Raises:
        OSError: It is neither, or cannot be read.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return Entry("symlink", hashlib.sha256(os.fsencode(path.readlink())).hexdigest(), executable=False)
    if not stat.S_ISREG(mode):
        raise IsADirectoryError(f"{path} is no file")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Entry("file", digest, executable=bool(mode & stat.S_IXUSR))


def differences(root: Path, listing: Listing, staged: Staged) -> Iterator[str]:
    """Paths of which the workspace does not hold any more what was handed over, and new ones.

    Args:
        root: The workspace.
        listing: What of it would be handed over now.
        staged: What was.
    """
    for path in sorted({*staged.entries, *listing.files}):
        try:
            now = entry_of(root / path)
        except OSError:
            now = None
        if now != staged.entries.get(path):
            yield path


def _commit(target: Path) -> None:
    with Repo.init(target) as repository:
        porcelain.add(repository, [str(target)])
        porcelain.commit(
            repository, message=b"The workspace as it was handed over", author=_AUTHOR, committer=_AUTHOR, sign=False
        )
