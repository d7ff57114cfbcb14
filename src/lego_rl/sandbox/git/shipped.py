"""A repository as a task ships it, read without git.

Invariant: it is data and nothing else. No configuration, hook, filter, graft or replacement of it is looked at, nothing
is executed, and no file outside of the task's own folders is read, whatever links, gitfiles and alternates say.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dulwich.object_store import DiskObjectStore

from lego_rl.errors import TaskError
from lego_rl.sandbox.git.search import Place
from lego_rl.sandbox.git.sources import Sources
from lego_rl.sandbox.paths import within

SYMBOLIC = b"ref: "
MAX_REF_DEPTH = 5
MAX_ALTERNATES = 5
"""How deep references may refer to references, and object folders to object folders; both as in git."""
OBJECT_ID = re.compile(rb"[0-9a-f]{40}")
SHA256_ID = re.compile(rb"[0-9a-f]{64}")
FANOUT = re.compile(r"[0-9a-f]{2}")
LOOSE_NAME = re.compile(r"[0-9a-f]{38}")
REFTABLE_HEAD = b"refs/heads/.invalid"


@dataclass(frozen=True)
class Shipped:
    """The references and objects of one repository.

    Attributes:
        place: Where it is.
        sources: The task's folders.
    """

    place: Place
    sources: Sources

    def head(self) -> bytes | None:
        """The commit that ``HEAD`` stands at; ``None`` where there is no commit yet.

        Raises:
            TaskError: That cannot be told.
        """
        text = self._read(self.place.git_dir / "HEAD")
        for _ in range(MAX_REF_DEPTH):
            if text is None:
                return None
            if not text.startswith(SYMBOLIC):
                return self._object_id(text, "HEAD")
            name = text[len(SYMBOLIC) :].strip()
            if name == REFTABLE_HEAD:
                raise self._error("keeps its references in a reftable", "name the commit as [metadata] base_commit")
            text = self._read(self.place.common / os.fsdecode(name)) or self._packed().get(name)
        raise self._error("has a HEAD that refers to itself", "check a commit out")

    def tags(self) -> dict[bytes, bytes]:
        """Full name of each tag, such as ``refs/tags/v1``, and the object that it names."""
        found = {name: target for name, target in self._packed().items() if name.startswith(b"refs/tags/")}
        folder = self.place.common / "refs" / "tags"
        for path in sorted(folder.rglob("*")) if within(self.place.common, folder) else ():
            text = self._read(path)
            if text is not None and OBJECT_ID.fullmatch(text):
                found[b"refs/tags/" + os.fsencode(path.relative_to(folder))] = text
        return found

    def shallow(self) -> frozenset[bytes]:
        """Commits whose parents the repository does not have."""
        return frozenset((self._read(self.place.common / "shallow") or b"").split())

    @contextmanager
    def objects(self, scratch: Path) -> Iterator[DiskObjectStore]:
        """Its objects, those of alternates among them.

        Args:
            scratch: An empty folder; the store is made of links in it, so that it holds nothing but objects and can be
                added to.
        """
        (scratch / "pack").mkdir()
        for folder in self._object_folders():
            for path in folder.glob("pack/pack-*"):
                if path.suffix in {".pack", ".idx"}:
                    _link(path, folder, scratch / "pack" / path.name)
            for fanout in (path for path in folder.iterdir() if FANOUT.fullmatch(path.name) and path.is_dir()):
                (scratch / fanout.name).mkdir(exist_ok=True)
                for path in fanout.iterdir():
                    if LOOSE_NAME.fullmatch(path.name):
                        _link(path, folder, scratch / fanout.name / path.name)
        store = DiskObjectStore(scratch)
        try:
            yield store
        finally:
            with suppress(BufferError):  # The traceback of an error may still look into a pack.
                store.close()

    def _object_folders(self) -> list[Path]:
        """Its object folder and those of its alternates, as far as they are the task's."""
        first = self.place.common / "objects"
        found: list[Path] = []
        level = [folder for folder in (self._own(first),) if folder is not None]
        for _ in range(MAX_ALTERNATES + 1):
            found += level
            named = [path for folder in level for path in self._alternates(folder)]
            level = list(dict.fromkeys(path for path in named if path not in found))
        return found

    def _alternates(self, folder: Path) -> Iterator[Path]:
        for line in (self._read(folder / "info" / "alternates") or b"").splitlines():
            text = os.fsdecode(line)
            if text and not text.startswith("#"):
                path = self.sources.host_path(text) if text.startswith("/") else self._own(folder / text)
                if path is not None and path.is_dir():
                    yield path

    def _own(self, path: Path) -> Path | None:
        """The real path of a file or folder if it is the task's."""
        for part in self.sources.parts:
            if (real := within(part.host, path)) is not None:
                return real
        return None

    def _packed(self) -> dict[bytes, bytes]:
        lines = (self._read(self.place.common / "packed-refs") or b"").splitlines()
        pairs = [line.split(b" ", 1) for line in lines if line[:1] not in {b"#", b"^"} and b" " in line]
        return {name.strip(): target for target, name in pairs}

    def _read(self, path: Path) -> bytes | None:
        real = self._own(path)
        return real.read_bytes().strip() if real is not None and real.is_file() else None

    def _object_id(self, text: bytes, what: str) -> bytes:
        if SHA256_ID.fullmatch(text):
            raise self._error("uses the object format sha256", "ship it with the object format sha1")
        if not OBJECT_ID.fullmatch(text):
            raise self._error(f"has a {what} that names no commit", "check a commit out")
        return text

    def _error(self, problem: str, fix: str) -> TaskError:
        return TaskError(f"the repository {self.place.entry} {problem}", fix)


def _link(path: Path, folder: Path, target: Path) -> None:
    real = within(folder, path)
    if real is not None and real.is_file() and not target.is_symlink():
        target.symlink_to(real)
