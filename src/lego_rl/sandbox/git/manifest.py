"""What a sealed file system has of git, for the check from inside.

Invariant: the numbers come from what the base commit reaches, not from the files that were written: a repository that
was written wrongly does not match.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from lego_rl.documents import read_json
from lego_rl.errors import SandboxError
from lego_rl.sandbox.paths import is_at_or_below

PACK = ".pack"


@dataclass(frozen=True)
class SealedFile:
    """A file of a sealed repository.

    Attributes:
        name: Relative to the git directory.
        size: Bytes.
        sha256: Of its content; empty for a pack, whose objects are compared instead.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class SealedRepository:
    """A repository that the agent may see.

    Attributes:
        git_dir: Absolute path inside.
        objects: How many objects it has.
        digest: `ids_digest` of them.
        files: Every file in the git directory.
    """

    git_dir: str
    objects: int
    digest: str
    files: tuple[SealedFile, ...]


@dataclass(frozen=True)
class HistorySeal:
    """Everything of git that the agent may see.

    Attributes:
        repositories: Sealed ones.
        fixtures: Absolute paths of bare repositories and packs that the base commit itself has as files.
    """

    repositories: tuple[SealedRepository, ...] = ()
    fixtures: tuple[str, ...] = ()

    def git_dirs_below(self, folder: str) -> frozenset[str]:
        """The sealed git directories in a folder, relative to it; the folder itself, where it is one, is ``.``."""
        found = (repository.git_dir for repository in self.repositories)
        return frozenset(posixpath.relpath(path, folder) for path in found if is_at_or_below(path, folder))

    def write(self, path: Path) -> None:
        """Save it."""
        path.write_text(json.dumps(asdict(self)), encoding="ascii")  # Names in any bytes are escaped.

    @classmethod
    def read(cls, path: Path) -> "HistorySeal":
        """Load it.

        Raises:
            SandboxError: The file is damaged.
        """
        try:
            return msgspec.convert(read_json(path.read_bytes()), type=cls)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the prepared work tree {path.parent} is damaged: {error}", "remove it") from error


def ids_digest(ids: Iterable[bytes]) -> str:
    """SHA-256 of object ids (40 hexadecimal digits each), sorted and as 20 bytes each."""
    return hashlib.sha256(b"".join(bytes.fromhex(name.decode()) for name in sorted(ids))).hexdigest()


def sealed_files(git_dir: Path) -> tuple[SealedFile, ...]:
    """The files of a git directory that was just written, on the host."""
    found = []
    for path in sorted(path for path in git_dir.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest = "" if path.suffix == PACK else hashlib.sha256(content).hexdigest()
        found.append(SealedFile(str(path.relative_to(git_dir)), len(content), digest))
    return tuple(found)
