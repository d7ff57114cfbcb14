"""Folders in a pool in which something is being written: beside its place, and named so that anyone can tell whose.

Invariant: what stands under its own name is whole. A process that is killed leaves a folder with its stamp, which the
next one removes (`remove_leftovers`); loading a pool passes such folders by.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from lego_rl.owner import is_dead, named_in, own_stamp, owned_folder

SCRATCH = ".writing-"
"""How the names of the folders begin."""


def stage(files: Mapping[str, bytes], pool: Path) -> Path:
    """Write a directory into a folder of its own below `pool`; whoever takes it away removes that folder.

    Args:
        files: Path in the directory → content.
        pool: Where the directory will be.

    Raises:
        OSError: The disk does not take it.
    """
    pool.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=pool, prefix=f"{SCRATCH}{_stamp(os.getpid())}-")) / "task"
    _write(files, unfinished)
    return unfinished


@contextmanager
def written(files: Mapping[str, bytes], pool: Path) -> Iterator[Path]:
    """The same, where what is left of it is removed at the end."""
    pool.mkdir(parents=True, exist_ok=True)
    with owned_folder(pool, SCRATCH) as scratch:
        _write(files, scratch / "task")
        yield scratch / "task"


def remove_leftovers(pool: Path, prefix: str = SCRATCH) -> None:
    """Remove what processes that were killed were writing below `pool`, in folders whose names begin so."""
    for path in pool.glob(f"{prefix}*"):
        stamp = named_in(path.name)
        if stamp is not None and is_dead(stamp):
            shutil.rmtree(path, ignore_errors=True)


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    (folder / "environment").mkdir(parents=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if name.endswith(".sh"):
            file.chmod(0o755)


@cache
def _stamp(_: int) -> str:
    """The stamp of the process with this id, which is this one; to ask for it takes longer than to write a task."""
    return own_stamp()
