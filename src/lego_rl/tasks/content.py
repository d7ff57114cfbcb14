"""Digests of what a task directory holds: by them a trial, a finding and an index know whether it is still the same.

Invariant: a digest is of paths and bytes alone, so that a pool can be copied and moved. The narrower ones are of just
the files that an index is made from: they are compared where those are read anyway, or where there is no time for more.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

NAMING_FILES = ("task.toml", "tests/config.json", "environment/Dockerfile")
"""What says where a task comes from; `tasks.index.task_row` reads these and no others for it."""


def directory_digest(folder: Path) -> str:
    """Of every path and byte of a task directory; what a link leads to is not looked at.

    Raises:
        OSError: There is none, or a file of it cannot be read.
    """
    digest = hashlib.sha256()
    for name, content in _entries(str(folder), ""):
        digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def naming_digest(folder: Path) -> str | None:
    """Of the files that say where a task comes from; ``None`` where the directory is not there.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for name in NAMING_FILES:
        content = _content(f"{folder}/{name}")
        if content is not None:
            digest.update(f"{name}\0{len(content)}\n".encode() + content)
        elif name == NAMING_FILES[0] and not folder.is_dir():
            return None
    return digest.hexdigest()


def texts_digest(issue: str, patch: str | None) -> str:
    """Of an issue text and a gold patch as they are compared with a reference."""
    digest = hashlib.sha256(issue.encode(errors="replace"))
    if patch is not None:
        digest.update(b"\0" + patch.encode(errors="replace"))
    return digest.hexdigest()


def _content(path: str) -> bytes | None:
    """Of a file; ``None`` where there is none. Without a file object, which of every task of a large pool is most of
    the time."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if stat.S_ISDIR((found := os.fstat(file)).st_mode):
            return None
        parts = [os.read(file, found.st_size + 1)]
        while parts[-1]:
            parts.append(os.read(file, 1 << 20))
        return b"".join(parts)
    finally:
        os.close(file)


def _entries(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Every file with a digest of it, and every link with where it leads, in the order of their paths."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if entry.is_symlink():
            yield name, os.readlink(entry.path)  # noqa: PTH115  (of every file of a large pool)
        elif entry.is_dir():
            yield from _entries(entry.path, f"{name}/")
        elif entry.is_file():
            with open(entry.path, "rb") as file:  # noqa: PTH123
                yield name, hashlib.file_digest(file, "sha256").hexdigest()
