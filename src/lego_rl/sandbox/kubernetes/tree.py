"""File trees of a pod, as its keeper tells of them: a listing with digests, then the content of what is wanted.

Invariant: the listing is made after the work container is dead, by a container in which nothing of the agent's runs;
nothing in it is believed to be more than names, sizes and bytes, and all of it is bounded.
"""

import asyncio
import hashlib
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lego_rl.errors import SandboxError
from lego_rl.sandbox import records
from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.comparison import Comparison, Found
from lego_rl.sandbox.image_trees import MAX_ENTRIES, check_size
from lego_rl.sandbox.kubernetes.delta import digests
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.transfer import operate
from lego_rl.sandbox.verdict import Patch

FETCH_BYTES = 48 << 20
"""Of content fetched at a time, but for a file that is larger alone."""
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
    """See `Snapshot`: a tree that was compared while its pod was there to be asked for what the patch takes of it.

    Attributes:
        pristine: The tree that it was compared with.
        patch: What differs.
    """

    pristine: Path
    patch: Patch

    def diff(self, pristine: Path) -> Patch:
        """See `Snapshot.diff`.

        Raises:
            SandboxError: It was compared with another tree.
        """
        if pristine != self.pristine:
            raise SandboxError(
                f"the files of a pod were compared with {self.pristine}, not with {pristine}", "report this as a bug"
            )
        return self.patch


class _ListedTree:
    """See `LeftTree`. A listing tells of the whole tree, and the content of files by their digests."""

    def __init__(self, entries: Mapping[str, Entry], pristine: Path) -> None:
        self._entries = entries
        self._known = digests(pristine)
        self._children: dict[str, dict[str, None]] = {}
        for path in sorted(entries):
            folder, _, name = path.rpartition("/")
            self._children.setdefault(folder, {})[name] = None

    def names(self, folder: str) -> Set[str]:
        return self._children.get(folder, {}).keys()

    def hides(self, _: str) -> bool:
        return True

    def found(self, path: str) -> Found:
        entry = self._entries[path]
        match entry.kind:
            case "file":
                executable = bool(entry.mode & stat.S_IXUSR)
                return Found(path, "file", entry.size, executable, is_readable=bool(entry.digest))
            case "symlink":
                return Found(path, "symlink", len(entry.target))
            case "directory":
                return Found(path, "directory", is_readable=bool(entry.mode))
            case "special":
                return Found(path, "special")

    def is_as(self, found: Found, lower: Path) -> bool:
        entry = self._entries[found.path]
        if entry.kind == "symlink":
            return entry.target == os.fsencode(lower.readlink())
        return self._known.get(found.path) == (entry.digest, found.executable)


async def listing(channel: Channel, folder: str, *inner: str) -> dict[str, Entry]:
    """Everything below a folder of the keeper's; what is in git directories only with the word ``git``.

    Raises:
        SandboxError: There is too much, the pod died, or what came is no listing.
    """
    stream = await operate(channel, ["list", folder, *inner])
    return await asyncio.to_thread(_entries, stream)


def _entries(stream: bytes) -> dict[str, Entry]:
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
        told = await asyncio.to_thread(records.decode, stream)
        found |= {record.path: record.content for record in told}
    if {path: len(content) for path, content in found.items()} != wanted:
        raise SandboxError("a pod sent other files than it was asked for", records.ALTERED)
    return found


async def snapshot(
    channel: Channel, folder: str, pristine: Path, git_dirs: frozenset[str] = frozenset()
) -> TreeSnapshot:
    """The tree in a folder of the keeper's, with what a patch against `pristine` takes of it.

    Raises:
        SandboxError: It cannot be had, or is more than can be looked at in time.
    """
    entries = await listing(channel, folder)
    comparison = await asyncio.to_thread(lambda: Comparison(_ListedTree(entries, pristine), pristine, git_dirs))
    taken = comparison.changes.values()
    files = await fetch(channel, folder, {found.path: found.size for found in taken if found.kind == "file"})

    def content(found: Found) -> bytes:
        return files[found.path] if found.kind == "file" else entries[found.path].target

    return TreeSnapshot(pristine, comparison.patch(content))


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
        # Every folder was made here, so no link of the image is on the way to anything that is written.
        if (folder_of := path.rpartition("/")[0]) and entries.get(folder_of, Entry("special")).kind != "directory":
            raise SandboxError(f"a pod told of {path[:200]!r} in no folder", records.ALTERED)
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
