"""File trees of a pod, as its keeper tells of them: a listing with digests, then the content of what is wanted.

Invariant: the listing is made after the work container is dead, by a container in which nothing of the agent's runs;
nothing in it is believed to be more than names, sizes and bytes, and all of it is bounded.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lego_rl.errors import SandboxError
from lego_rl.sandbox import diff as differ
from lego_rl.sandbox import records
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.diff import ALL_TOO_LARGE, FILE_TOO_LARGE, Comparison, is_folder, join
from lego_rl.sandbox.image_trees import MAX_ENTRIES, check_size
from lego_rl.sandbox.kubernetes.delta import digests
from lego_rl.sandbox.not_carried import (
    GIT_DIRECTORY,
    dropped_because,
    folder_dropped_because,
    is_part_of_repository,
)
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.transfer import operate
from lego_rl.sandbox.verdict import Change, Patch

FETCH_BYTES = 48 << 20
"""Of content fetched at a time, but for a file that is larger alone."""
UNREADABLE = "not readable"
_SIZE = struct.Struct("!Q")


@dataclass(frozen=True)
class Entry:
    """One path of a tree.

    Attributes:
        kind: What it is.
        mode: Permission bits; 0 of a folder whose inside is not known.
        size: Bytes of a file.
        digest: SHA-256 of a file; empty where it may not be read.
        target: What a link points to.
    """

    kind: Literal["file", "symlink", "directory", "special"]
    mode: int = 0
    size: int = 0
    digest: bytes = b""
    target: bytes = b""


@dataclass(frozen=True)
class TreeSnapshot:
    """See `Snapshot`: a whole tree, not only what changed in it.

    Attributes:
        entries: Every path.
        contents: Of the files that differ from the pristine tree, as far as a patch can hold them.
        git_dirs: See `OverlaySnapshot`.
    """

    entries: Mapping[str, Entry]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    git_dirs: frozenset[str] = frozenset()

    def diff(self, pristine: Path) -> Patch:
        """See `Snapshot.diff`."""
        comparison = _TreeComparison(self, digests(pristine), _children(self.entries))
        comparison.below("", pristine)
        return comparison.patch()


class _TreeComparison(Comparison):
    """Compares a listing with the pristine tree."""

    def __init__(
        self, snapshot: TreeSnapshot, known: Mapping[str, tuple[bytes, bool]], children: Mapping[str, dict[str, None]]
    ) -> None:
        super().__init__(git_dirs=snapshot.git_dirs)
        self._snapshot = snapshot
        self._known = known
        self._children = children

    def below(self, folder: str, lower: Path | None) -> None:
        """Compare what a folder holds with what it held; ``None`` where it is new."""
        names = self._children.get(folder, {})
        for name in names:
            if is_part_of_repository(name, names.__contains__, lower):
                self.drop(join(folder, name), GIT_DIRECTORY)
                continue
            self._path(join(folder, name), name, lower / name if lower is not None else None)
        if lower is not None and is_folder(lower):
            for path in sorted(lower.iterdir()):
                if path.name not in names:
                    self.delete(path, join(folder, path.name))

    def _path(self, path: str, name: str, lower: Path | None) -> None:
        self.deadline.check()
        entry = self._snapshot.entries[path]
        if path.count("/") >= differ.MAX_DEPTH or len(os.fsencode(path)) > differ.MAX_PATH_BYTES:
            self.drop(path, "nested too deeply")
        elif (reason := self.dropped_because(path, name)) is not None:
            self.drop(path, reason)
        elif entry.kind == "directory":
            self._folder(path, entry, lower)
        elif entry.kind == "symlink":
            self.change(lower, Change(path, "symlink", entry.target))
        elif entry.kind == "file":
            self._file(path, entry, lower)
        else:
            self.drop(path, "special file")
            self.delete(lower, path)

    def _folder(self, path: str, entry: Entry, lower: Path | None) -> None:
        if not entry.mode:
            self.drop(path, UNREADABLE)
            return
        if lower is not None and not is_folder(lower):
            self.delete(lower, path)
            lower = None
        if (reason := folder_dropped_because(path, self._children.get(path, {}).__contains__, lower)) is not None:
            self.drop(path, reason)
        else:
            self.below(path, lower)

    def _file(self, path: str, entry: Entry, lower: Path | None) -> None:
        executable = bool(entry.mode & stat.S_IXUSR)
        if entry.digest and self._known.get(path) == (entry.digest, executable):
            return
        if entry.size > differ.MAX_FILE_BYTES:
            self.uncover(lower, path)
            self.drop(path, FILE_TOO_LARGE)
        elif (content := self._snapshot.contents.get(path)) is not None:
            self.change(lower, Change(path, "file", content, executable))
        else:
            self.uncover(lower, path)
            self.drop(path, ALL_TOO_LARGE if entry.digest else UNREADABLE)


async def listing(channel: Channel, folder: str, *inner: str) -> dict[str, Entry]:
    """Everything below a folder of the keeper's; what is in git directories only with the word ``git``.

    Raises:
        SandboxError: There is too much, the pod died, or what came is no listing.
    """
    stream = await operate(channel, ["list", folder, *inner])
    found: dict[str, Entry] = {}
    for record in records.decode(stream, MAX_ENTRIES):
        if not records.is_plain(record.path):
            raise SandboxError(f"a pod told of a file named {record.path[:200]!r}", records.ALTERED)
        found[record.path] = _entry(record)
    return found


async def fetch(channel: Channel, folder: str, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """The content of some files below a folder of the keeper's.

    Args:
        channel: The keeper's.
        folder: The folder.
        wanted: Path → size in bytes.

    Raises:
        SandboxError: The pod died, or sent something else.
    """
    found: dict[str, bytes] = {}
    for paths in _portions(wanted):
        names = b"\0".join(os.fsencode(path) for path in paths)
        stream = await operate(channel, ["fetch", folder], names)
        found |= {record.path: record.content for record in records.decode(stream, MAX_ENTRIES)}
    if not found.keys() <= wanted.keys():
        raise SandboxError("a pod sent a file that it was not asked for", records.ALTERED)
    return found


async def snapshot(
    channel: Channel, folder: str, pristine: Path, git_dirs: frozenset[str] = frozenset()
) -> TreeSnapshot:
    """The tree in a folder of the keeper's, with what a patch against `pristine` can hold of it.

    Raises:
        SandboxError: It cannot be had.
    """
    entries = await listing(channel, folder)
    known = digests(pristine)
    wanted: dict[str, int] = {}
    room = differ.MAX_PATCH_BYTES
    # As in every diff: first what the task's own files became, then the smallest new ones.
    for path, entry in sorted(entries.items(), key=lambda item: (item[0] not in known, item[1].size, item[0])):
        kept = not any(dropped_because(part) for part in path.split("/"))
        if entry.kind == "file" and entry.digest and kept and entry.size <= min(room, differ.MAX_FILE_BYTES):
            if known.get(path) != (entry.digest, bool(entry.mode & stat.S_IXUSR)):
                wanted[path] = entry.size
                room -= entry.size
            if len(wanted) > differ.MAX_CHANGES:
                break
    return TreeSnapshot(entries, await fetch(channel, folder, wanted), git_dirs)


async def take_out(channel: Channel, folder: str, target: Path) -> None:
    """Copy a folder of the keeper's to a new folder of the host's; there need not be one.

    Raises:
        SandboxError: It is too large, or cannot be read.
    """
    entries = await listing(channel, folder, "git")
    sizes = {path: entry.size for path, entry in entries.items() if entry.kind == "file"}
    check_size(sum(sizes.values()), len(entries))
    if hidden := next((path for path, entry in entries.items() if _is_hidden(entry)), None):
        raise SandboxError(
            f"{folder}/{hidden} of the image may not be read by uid 1000", f"chmod -R a+rX {folder} in the image"
        )
    for path, entry in entries.items():
        place = target / path
        if entry.kind == "directory":
            place.mkdir()
        elif entry.kind == "symlink":
            place.symlink_to(os.fsdecode(entry.target))
    for paths in _portions(sizes):
        for path, content in (await fetch(channel, folder, {path: sizes[path] for path in paths})).items():
            place = target / path
            place.write_bytes(content)
            place.chmod(0o755 if entries[path].mode & stat.S_IXUSR else 0o644)


def _entry(record: Record) -> Entry:
    match record.kind:
        case "file":
            if len(record.content) not in (_SIZE.size, _SIZE.size + hashlib.sha256().digest_size):
                raise SandboxError("a pod told of a file without its size", records.ALTERED)
            (size,) = _SIZE.unpack_from(record.content)
            return Entry("file", record.mode, size, record.content[_SIZE.size :])
        case "symlink":
            return Entry("symlink", target=record.content)
        case "directory":
            return Entry("directory", record.mode)
        case "deleted":
            return Entry("special")


def _is_hidden(entry: Entry) -> bool:
    return (entry.kind == "file" and not entry.digest) or (entry.kind == "directory" and not entry.mode)


def _portions(wanted: Mapping[str, int]) -> Iterator[list[str]]:
    """Paths in portions that a transfer can hold."""
    portion: list[str] = []
    size = 0
    for path, each in wanted.items():
        if portion and (size + each > FETCH_BYTES or len(portion) >= records.MAX_RECORDS):
            yield portion
            portion, size = [], 0
        portion.append(path)
        size += each
    if portion:
        yield portion


def _children(entries: Mapping[str, Entry]) -> dict[str, dict[str, None]]:
    """Names in each folder, in order; as many as an agent makes are looked up fast."""
    found: dict[str, dict[str, None]] = {}
    for path in sorted(entries):
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, {})[name] = None
    return found
