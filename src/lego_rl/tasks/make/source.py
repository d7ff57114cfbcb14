"""Where a source tree comes from: a folder, a git checkout, a source distribution or several of one package.

Invariant: a source is read, never executed: no hook, no filter, no build; and nothing of it is written anywhere.
"""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from packaging.utils import InvalidSdistFilename, parse_sdist_filename

from lego_rl.errors import TaskError
from lego_rl.tasks.make.checkout import Checkout, is_checkout
from lego_rl.tasks.make.tree import MAX_FILE_BYTES, Step, Tree, bounded, is_kept
from lego_rl.tasks.make.unsourced import sources_among


class Source(Protocol):
    """A repository."""

    @property
    def name(self) -> str:
        """What tasks of it are called."""
        ...

    @property
    def label(self) -> str:
        """Names its newest state."""
        ...

    @property
    def remotes(self) -> tuple[str, ...]:
        """Addresses of where it was cloned from."""
        ...

    @property
    def distribution(self) -> str:
        """Name of the package, where it came as source distributions."""
        ...

    def newest(self) -> Tree:
        """Its newest state."""
        ...

    def steps(self) -> Iterator[Step]:
        """Its history, newest first; empty where it has none."""
        ...


@dataclass(frozen=True)
class Folder:
    """A folder without a repository."""

    path: Path
    remotes: tuple[str, ...] = ()
    distribution: str = ""

    @property
    def name(self) -> str:
        """See `Source`."""
        return self.path.resolve().name

    @property
    def label(self) -> str:
        """See `Source`: of the files themselves, so that a tree that was changed gives other tasks."""
        return f"tree{self._tree.digest[:8]}"

    def newest(self) -> Tree:
        """See `Source`; links and special files are left out, and what is no source (`tasks.make.unsourced`)."""
        return self._tree

    @cached_property
    def _tree(self) -> Tree:
        paths = (path for path in sorted(self.path.rglob("*")) if path.is_file() and not path.is_symlink())
        named = {path.relative_to(self.path).as_posix(): path for path in paths}
        kept = (name for name in sources_among(named) if is_kept(name))
        return bounded(((name, named[name].read_bytes()) for name in kept), str(self.path))

    def steps(self) -> Iterator[Step]:
        """See `Source`."""
        return iter(())


@dataclass(frozen=True)
class Releases:
    """Source distributions of one package, oldest first."""

    name: str
    archives: tuple[tuple[str, Path], ...]
    remotes: tuple[str, ...] = ()

    @property
    def distribution(self) -> str:
        """See `Source`."""
        return self.name

    @property
    def label(self) -> str:
        """See `Source`."""
        return self.archives[-1][0]

    def newest(self) -> Tree:
        """See `Source`."""
        return unpacked(self.archives[-1][1])

    def steps(self) -> Iterator[Step]:
        """See `Source`: one step a pair of successive releases."""
        for place in range(len(self.archives) - 1, 0, -1):
            label, path = self.archives[place]
            since, earlier = self.archives[place - 1]
            yield Step(since, label, unpacked(earlier), unpacked(path))


def open_source(paths: Sequence[Path]) -> Source:
    """The source that some paths name: one folder, one checkout, or one or several source distributions.

    Raises:
        TaskError: They name none, or distributions of different packages.
    """
    for path in paths:
        if not path.exists():
            raise TaskError(f"there is no {path}", "name a git checkout, a folder or source distributions (.tar.gz)")
    if len(paths) == 1 and paths[0].is_dir():
        return Checkout.open(paths[0]) if is_checkout(paths[0]) else Folder(paths[0])
    named = []
    for path in paths:
        try:
            named.append((*parse_sdist_filename(path.name), path))
        except InvalidSdistFilename as error:
            raise TaskError(
                f"{path} is not called like a source distribution, NAME-VERSION.tar.gz",
                "give one folder, or source distributions of one package",
            ) from error
    names = {name for name, _, _ in named}
    if len(names) != 1:
        raise TaskError(f"these are distributions of {', '.join(sorted(names))}", "run the command once a package")
    ordered = sorted(named, key=lambda each: each[1])
    return Releases(names.pop(), tuple((str(version), path) for _, version, path in ordered))


def unpacked(archive: Path) -> Tree:
    """The tree of a source distribution, without the folder that holds it all; links are left out.

    Raises:
        TaskError: It is no archive, too large, or has a path that leads out of it.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            return bounded(_members(tar, archive), str(archive))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TaskError(f"{archive} cannot be unpacked: {error}", "fetch it again") from error


def _members(tar: tarfile.TarFile, archive: Path) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        inner = member.name.removeprefix("./").partition("/")[2]
        if not member.isfile() or not inner or not is_kept(inner):
            continue
        if ".." in inner.split("/") or "\0" in inner:
            raise TaskError(f"{archive} has a path that leads out of it: {member.name[:200]!r}", "do not use it")
        if member.size > MAX_FILE_BYTES:
            continue
        stream = tar.extractfile(member)
        if stream is not None:
            yield inner, stream.read()
