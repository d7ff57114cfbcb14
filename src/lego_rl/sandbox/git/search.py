"""Find the git repositories of a task, and whatever else holds git objects.

Invariant: everything that git would take for a repository is found, by git's own criterion: a ``.git`` of any kind, or
a folder of any name with ``HEAD``, ``objects/`` and ``refs/``. Links are not followed on the way.
"""

import os
import posixpath
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.git.sources import Source, Sources
from lego_rl.sandbox.look.files import BARE, HEAD_BYTES, MAGIC, SUFFIXES
from lego_rl.sandbox.paths import is_at_or_below, within

GITFILE = b"gitdir:"
GITFILE_BYTES = 4096
LOOSE_PATH = re.compile(r"(?:^|/)[0-9a-f]{2}/[0-9a-f]{38,62}$")
LOOSE_HEAD = re.compile(rb"(commit|tree|blob|tag) \d+\0")


@dataclass(frozen=True)
class Place:
    """A repository of the task, where git finds it.

    Attributes:
        inside: The absolute path of its ``.git``, or of the folder itself where it is bare.
        entry: The same on the host: a folder, a gitfile or a link.
        git_dir: Its git directory on the host: ``HEAD`` and ``index`` of this work tree.
        common: Its common directory on the host: objects and refs.
        bare: Whether it has no work tree.
    """

    inside: str
    entry: Path
    git_dir: Path
    common: Path
    bare: bool

    @property
    def work_tree(self) -> str:
        """The absolute path of what it tracks, inside; of the repository itself where it is bare."""
        return self.inside if self.bare else posixpath.dirname(self.inside)


@dataclass(frozen=True)
class Found:
    """What a search came upon, by absolute path inside.

    Attributes:
        places: Repositories.
        broken: A ``.git`` that leads to no repository of the task.
        strays: Files outside of repositories that hold git objects.
    """

    places: dict[str, Place]
    broken: dict[str, Path]
    strays: dict[str, Path]

    def include(self, other: "Found") -> None:
        """Add what another search came upon."""
        self.places.update(other.places)
        self.broken.update(other.broken)
        self.strays.update(other.strays)


def search(parts: Sequence[Source], sources: Sources) -> Found:
    """Look through the parts of a work tree. Of two things at one path the one that is copied last counts."""
    found = Found({}, {}, {})
    for part in parts:
        if posixpath.basename(part.inside) == ".git":
            _note(part.host, part.inside, part, sources, found)
        elif part.host.is_dir():
            for folder, folders, names in os.walk(part.host):
                _look(Path(folder), folders, names, part, sources, found)
        elif _holds_objects(part.host):
            found.strays[part.inside] = part.host
    return found


def search_root(root: Source, sources: Sources, skip: frozenset[str]) -> Found:
    """Look through an unpacked image, but for the folders to `skip` (absolute, inside).

    Files are told by their names here: an image has too many to open each of them.
    """
    found = Found({}, {}, {})
    for folder, folders, names in os.walk(root.host):
        inside = _inside(root, Path(folder))
        folders[:] = [name for name in folders if posixpath.join(inside, name) not in skip]
        _look(Path(folder), folders, [name for name in names if _may_hold_objects(inside, name)], root, sources, found)
    return found


def work_tree_of(inside: str, trees: Iterable[str]) -> str | None:
    """The innermost of `trees` that a path is in; the path itself does not count."""
    return max((tree for tree in trees if tree != inside and is_at_or_below(inside, tree)), key=len, default=None)


def _look(folder: Path, folders: list[str], names: list[str], part: Source, sources: Sources, found: Found) -> None:
    """Take note of what `folder` holds, and take repositories out of the `folders` that are still to be walked."""
    inside = _inside(part, folder)
    if {*folders, *names} >= BARE:
        found.places[inside] = Place(inside, folder, folder, folder, bare=True)
        folders.clear()
        return
    if ".git" in folders or ".git" in names:
        _note(folder / ".git", posixpath.join(inside, ".git"), part, sources, found)
    folders[:] = [name for name in folders if name != ".git"]
    for name in names:
        if name != ".git" and _holds_objects(folder / name):
            found.strays[posixpath.join(inside, name)] = folder / name


def _note(entry: Path, inside: str, part: Source, sources: Sources, found: Found) -> None:
    """Take note of a ``.git``, in place of one that an earlier part has at the same path."""
    found.places.pop(inside, None)
    found.broken.pop(inside, None)
    place = _place(entry, inside, part, sources)
    if place is None:
        found.broken[inside] = entry
    else:
        found.places[inside] = place


def _place(entry: Path, inside: str, part: Source, sources: Sources) -> Place | None:
    """The repository that a ``.git`` leads to, or ``None`` where that is none, or none of the task's."""
    git_dir = within(part.host, entry)
    if git_dir is not None and git_dir.is_file():
        target = _gitfile(git_dir)
        git_dir = None if target is None else sources.host_path(posixpath.join(posixpath.dirname(inside), target))
    if git_dir is None or not (git_dir / "HEAD").is_file():
        return None
    common = _common(git_dir, sources)
    if common is None or not (common / "objects").is_dir():
        return None
    return Place(inside, entry, git_dir, common, bare=False)


def _gitfile(path: Path) -> str | None:
    with path.open("rb") as stream:
        text = stream.read(GITFILE_BYTES)
    return os.fsdecode(text[len(GITFILE) :].strip()) if text.startswith(GITFILE) else None


def _common(git_dir: Path, sources: Sources) -> Path | None:
    """The common directory of a linked work tree's git directory; of any other that directory itself."""
    pointer = git_dir / "commondir"
    if not pointer.is_file():
        return git_dir
    target = os.fsdecode(pointer.read_bytes()[:GITFILE_BYTES].strip())
    if posixpath.isabs(target):
        return sources.host_path(target)
    for part in sources.parts:
        if (found := within(part.host, git_dir / target)) is not None:
            return found
    return None


def _may_hold_objects(folder: str, name: str) -> bool:
    suffixed = name.endswith(SUFFIXES)
    return name in {".git", "HEAD"} or suffixed or LOOSE_PATH.search(f"{folder}/{name}") is not None


def _holds_objects(path: Path) -> bool:
    """Whether a file is a pack, a pack's index, a bundle or a loose object, whatever it is called."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith(MAGIC):
        return True
    return is_loose_object(head)


def is_loose_object(head: bytes) -> bool:
    """Whether a file that begins like this is a git object on its own."""
    try:
        return LOOSE_HEAD.match(zlib.decompressobj().decompress(head, HEAD_BYTES)) is not None
    except zlib.error:
        return False


def _inside(part: Source, folder: Path) -> str:
    return posixpath.normpath(posixpath.join(part.inside, posixpath.relpath(folder, part.host)))
