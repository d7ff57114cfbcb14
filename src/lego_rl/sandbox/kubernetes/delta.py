"""Two trees of the host's: what is in them, and what makes one into the other."""

import hashlib
import os
import stat
from functools import lru_cache
from pathlib import Path

from lego_rl.sandbox.records import Record


def delta(base: Path, wanted: Path) -> list[Record]:
    """What makes `base`, without its git directories, into `wanted`; both are plain trees of the host's."""
    before, after = _known(base), _known(wanted)
    gone = [Record(path, "deleted") for path in before if path not in after]
    made = [_record(wanted, path) for path, state in after.items() if before.get(path) != state]
    return [*reversed(gone), *made]


def _known(tree: Path) -> dict[str, tuple[str, bytes, bool]]:
    """Kind, digest or target, and execute bit of everything in a tree, parents first."""
    files = digests(tree)
    found: dict[str, tuple[str, bytes, bool]] = {}
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        for path in (Path(folder, name) for name in (*folders, *sorted(names))):
            name = path.relative_to(tree).as_posix()
            if path.is_symlink():
                found[name] = ("symlink", os.fsencode(path.readlink()), False)
            elif path.is_dir():
                found[name] = ("directory", b"", False)
            elif name in files and path.name != ".git":
                found[name] = ("file", *files[name])
    return found


def _record(tree: Path, name: str) -> Record:
    path = tree / name
    if path.is_symlink():
        return Record(name, "symlink", os.fsencode(path.readlink()))
    if path.is_dir():
        return Record(name, "directory", mode=0o755)
    return Record(name, "file", path.read_bytes(), 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


@lru_cache(maxsize=64)
def digests(pristine: Path) -> dict[str, tuple[bytes, bool]]:
    """Digest and execute bit of each file of a pristine tree, which never changes."""
    found = {}
    for folder, _, names in os.walk(pristine):
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink():
                executable = bool(path.stat().st_mode & stat.S_IXUSR)
                found[path.relative_to(pristine).as_posix()] = (hashlib.sha256(path.read_bytes()).digest(), executable)
    return found
