"""Write a repository from nothing: the objects it may have, one branch, a configuration of our own.

Invariant: no byte of the shipped git directory is copied but that of objects, each of which is hashed again. What this
module did not write is not there.
"""

import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dulwich.index import IndexEntry, write_index_dict
from dulwich.object_format import SHA1
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID
from dulwich.pack import PackData, generate_unpacked_objects, write_pack_data, write_pack_index_v2

from lego_rl.sandbox.git.reachable import GITLINK, Reach
from lego_rl.tasks.withheld import blob_id

BRANCH = "refs/heads/main"
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = {bare}
\tlogallrefupdates = true
\tcheckStat = minimal
[user]
\tname = agent
\temail = agent@localhost
"""
"""``checkStat``: of a file's status git compares what every sandbox of a task shares, its size and its time."""


def write_repository(
    target: Path,
    store: DiskObjectStore,
    reach: Reach | None,
    *,
    work_tree: Path | None,
    tags: Mapping[bytes, list[ObjectID]] | None = None,
) -> None:
    """Write the repository of one commit.

    Args:
        target: The git directory to make.
        store: Has the objects.
        reach: The commit and what it reaches; ``None`` where there is no commit yet.
        work_tree: The files as they are shipped, which ``git status`` will compare; ``None`` for a bare repository.
        tags: Tags to add: name → the objects from the tag to its commit.

    Raises:
        DAMAGE: An object is missing, or is not what its id says.
    """
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (target / folder).mkdir(parents=True)
    (target / "HEAD").write_text(f"ref: {BRANCH}\n")
    (target / "config").write_text(CONFIG.format(bare="true" if work_tree is None else "false"))
    if reach is None:
        return
    (target / BRANCH).write_text(f"{reach.commit.decode()}\n")
    if reach.shallow:
        (target / "shallow").write_bytes(b"".join(name + b"\n" for name in sorted(reach.shallow)))
    if tags:
        (target / "packed-refs").write_bytes(_packed_refs(tags))
    objects = reach.objects.union(*(tags or {}).values())
    _write_pack(target / "objects" / "pack", store, objects)
    if work_tree is not None:
        _write_index(target / "index", reach.tree, work_tree)


def _write_pack(folder: Path, store: DiskObjectStore, objects: Iterable[ObjectID]) -> None:
    """The objects as one pack. Its index is computed from the pack's content, not from what the store says of it."""
    wanted = [(name, None) for name in sorted(objects)]
    records = generate_unpacked_objects(store, wanted, deltify=False, reuse_deltas=True)
    pack = folder / "unnamed.pack"
    with pack.open("wb") as stream:
        _, checksum = write_pack_data(stream.write, records, SHA1, num_records=len(wanted))
    with PackData(pack, SHA1) as data:
        entries = data.sorted_entries()
    if [entry[0].hex().encode() for entry in entries] != [name for name, _ in wanted]:
        raise ValueError("an object is not what its id says")
    with (folder / f"pack-{checksum.hex()}.idx").open("wb") as stream:
        write_pack_index_v2(stream, entries, checksum)
    pack.rename(folder / f"pack-{checksum.hex()}.pack")


def _packed_refs(tags: Mapping[bytes, list[ObjectID]]) -> bytes:
    lines = [b"# pack-refs with: peeled fully-peeled sorted"]
    for name in sorted(tags):
        lines.append(tags[name][0] + b" " + name)
        if len(tags[name]) > 1:
            lines.append(b"^" + tags[name][-1])
    return b"\n".join(lines) + b"\n"


def _write_index(target: Path, tree: Mapping[bytes, tuple[int, ObjectID]], work_tree: Path) -> None:
    files = WorkTree(work_tree)
    content = io.BytesIO()
    write_index_dict(content, {path: _entry(mode, name, path, files) for path, (mode, name) in tree.items()}, version=2)
    target.write_bytes(content.getvalue() + hashlib.sha1(content.getvalue(), usedforsecurity=False).digest())


def _entry(mode: int, name: ObjectID, path: bytes, files: "WorkTree") -> IndexEntry:
    """With size and time where the file is what the commit has; git compares the content of all others itself."""
    size = mtime = 0
    if mode != GITLINK and files.blob_id(path) == name.decode():
        status = files.status(path)
        if 0 < status.st_mtime < 1 << 32:
            size, mtime = status.st_size & 0xFFFFFFFF, int(status.st_mtime)
    return IndexEntry(0, mtime, 0, 0, mode, 0, 0, size, name)


class WorkTree:
    """The files of a work tree on the host, compared with those of a commit.

    Args:
        root: Its folder. No link on the way to a file is followed, in it or out of it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._plain: dict[Path, bool] = {}

    def status(self, path: bytes) -> os.stat_result:
        """Of a path relative to the root."""
        return (self._root / os.fsdecode(path)).lstat()

    def blob_id(self, path: bytes) -> str | None:
        """The id that git gives the content of a file or link; ``None`` where there is none."""
        full = self._root / os.fsdecode(path)
        parent = full.parent
        if parent not in self._plain:
            self._plain[parent] = parent.resolve() == parent
        if not self._plain[parent]:
            return None
        if full.is_symlink():
            return blob_id(os.fsencode(full.readlink()))
        return blob_id(full.read_bytes()) if full.is_file() else None
