"""The record of a bundle: what every file of it is, and whether it still is that.

Invariant: what is compared is found by walking the folder, never by the record's own names; links are not followed.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_rl.documents import read_json
from lego_rl.errors import HarnessError
from lego_rl.harness.base import BundleSpec, HarnessBundle

FORMAT = 1


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hash(root: Path) -> str:
    """SHA-256 over relative paths, modes and contents of the files and links below `root`; times do not enter."""
    return hash_of(scan(root))


@dataclass(frozen=True)
class Entry:
    """One file or link: permission bits, size, time of change in nanoseconds, SHA-256 of content or link target."""

    mode: int
    size: int
    mtime_ns: int
    sha256: str

    @classmethod
    def read(cls, raw: object) -> "Entry":
        """The entry of a record.

        Raises:
            TypeError: It is none.
        """
        match raw:
            case [int(mode), int(size), int(mtime_ns), str(sha256)]:
                return cls(mode, size, mtime_ns, sha256)
            case _:
                raise TypeError(f"{raw!r:.80} is no file's entry")

    def same_content(self, other: "Entry") -> bool:
        """Whether mode and content are the same; times do not enter."""
        return (self.mode, self.sha256) == (other.mode, other.sha256)


@dataclass(frozen=True)
class Record:
    """What ``bundle.json`` holds."""

    name: str
    version: str
    licence: str
    build: str
    hash: str
    files: dict[str, Entry]

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """The record of a bundle's folder.

        Raises:
            HarnessError: There is none, or it is damaged.
        """
        path = folder / "bundle.json"
        try:
            raw: dict[str, Any] = read_json(path.read_text(encoding="utf-8"))
            if raw["format"] != FORMAT:
                raise ValueError(f"format {raw['format']}")
            files = {name: Entry.read(entry) for name, entry in raw["files"].items()}
            if not all(isinstance(raw[key], str) for key in ("name", "version", "licence", "build", "hash")):
                raise TypeError("a name is no text")
            return cls(raw["name"], raw["version"], raw["licence"], raw["build"], raw["hash"], files)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise HarnessError(
                f"{path} is not a bundle record: {error!r}", f"delete {folder} and run: lego-rl harness install"
            ) from error

    def is_of(self, spec: BundleSpec) -> bool:
        """Whether it is of the bundle that `spec` asks for, and its hash that of its own entries."""
        same = (self.name, self.version, self.build) == (spec.name, spec.version, spec.build)
        return same and self.hash == hash_of(self.files)

    def write(self, path: Path) -> None:
        """Save it."""
        entries = {name: [e.mode, e.size, e.mtime_ns, e.sha256] for name, e in self.files.items()}
        content = {
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "licence": self.licence,
            "build": self.build,
            "hash": self.hash,
            "files": entries,
        }
        path.write_text(json.dumps(content), encoding="utf-8")

    def altered(self, files: Path) -> str:
        """The first path whose size, mode or time is not the recorded one, or an empty string."""
        if not files.is_dir():
            return "its files are missing"
        seen = 0
        for name, found in _walk(files):
            seen += 1
            entry = self.files.get(name)
            info = found.stat(follow_symlinks=False)
            actual = (stat.S_IMODE(info.st_mode), info.st_size, info.st_mtime_ns)
            if entry is None or actual != (entry.mode, entry.size, entry.mtime_ns):
                return name
        return "" if seen == len(self.files) else "a file is missing"

    def bundle(self, files: Path) -> HarnessBundle:
        """The bundle whose files lie in a folder."""
        size = sum(entry.size for entry in self.files.values())
        return HarnessBundle(self.name, self.version, self.hash, files.resolve(), size, self.licence)


def _walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Files and links below `root` with their relative POSIX paths; links are not followed."""
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{name}/")
                else:
                    yield name, entry


def scan(root: Path) -> dict[str, Entry]:
    """What every file and link below `root` is, by its relative path; all contents are read."""
    entries = {}
    for name, found in _walk(root):
        info = found.stat(follow_symlinks=False)
        if found.is_symlink():
            digest = hashlib.sha256(b"link:" + os.fsencode(Path(found).readlink())).hexdigest()
        else:
            digest = file_hash(Path(found))
        entries[name] = Entry(stat.S_IMODE(info.st_mode), info.st_size, info.st_mtime_ns, digest)
    return dict(sorted(entries.items()))


def hash_of(entries: dict[str, Entry]) -> str:
    """The hash of a bundle: SHA-256 over paths, modes and contents."""
    digest = hashlib.sha256()
    for name, entry in sorted(entries.items()):
        digest.update(f"{entry.mode:o} {entry.sha256} {name}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
