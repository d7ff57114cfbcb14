"""What a commit reaches: the objects that a sealed repository may have.

Invariant: the walk follows what the objects themselves say, parents and trees, and never grafts or replacements. An
object that is missing on the way is an error, never a gap; only the parents of a shallow commit are not there.
"""

import os
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException, WrongObjectException
from dulwich.index import commit_tree
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, Tag, Tree
from dulwich.pack import PackFileDisappeared, UnresolvedDeltas

from lego_rl.errors import TaskError

FOLDER, GITLINK = 0o040000, 0o160000
MAX_FILES = 1_000_000
"""Most files of a work tree: a few small trees can nest each other into more than a disk holds."""
SINGLE_MESSAGE = b"Base commit\n"
SINGLE_AUTHOR = b"task <task@localhost>"
MADE_TIME = 946684800
"""Of a commit where none was shipped: the year 2000, so that the same files give the same id."""
DAMAGE = (
    ApplyDeltaError, ChecksumMismatch, FileFormatException, PackFileDisappeared, UnresolvedDeltas, WrongObjectException,
    zlib.error, struct.error, AssertionError, AttributeError, BufferError, EOFError, IndexError, KeyError,
    OverflowError, TypeError, ValueError,
)  # fmt: skip
"""What reading a damaged repository raises: the library checks much of what it reads by assertion."""


@dataclass(frozen=True)
class Reach:
    """A commit and everything it reaches.

    Attributes:
        commit: Its id, 40 hexadecimal digits as are all ids here.
        objects: Ids of commits, trees and files (and tags, where they were added), the commit's own among them.
        commits: Those of them that are commits.
        tree: Path → mode and id of everything in the commit's tree but folders.
        shallow: Commits among them whose parents are left out, as they were in the repository.
    """

    commit: ObjectID
    objects: set[ObjectID]
    commits: set[ObjectID]
    tree: Mapping[bytes, tuple[int, ObjectID]]
    shallow: frozenset[ObjectID] = field(default_factory=frozenset)


@contextmanager
def damage_of(repository: Path) -> Iterator[None]:
    """Turn what a damaged or incomplete repository raises into a `TaskError` that names it."""
    try:
        yield
    except DAMAGE as error:
        said = error.args[0] if error.args else error
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise TaskError(
            f"the repository {repository} is damaged or incomplete ({type(error).__name__}: {text[:80]})",
            'ship a whole clone, or set [metadata] history = "none"',
        ) from error


def reach_of(store: DiskObjectStore, base: bytes, shallow: frozenset[bytes]) -> Reach:
    """Walk from a commit.

    Raises:
        DAMAGE: Something on the way is missing or malformed.
    """
    first = commit_at(store, base)
    commits: set[ObjectID] = set()
    objects: set[ObjectID] = set()
    cut: set[ObjectID] = set()
    waiting = [first]
    while waiting:
        commit = waiting.pop()
        if commit.id in commits:
            continue
        commits.add(commit.id)
        _add_tree(store, commit.tree, objects)
        if commit.id in shallow:
            cut.add(commit.id)
        else:
            waiting += [commit_at(store, parent) for parent in commit.parents if parent not in commits]
    return Reach(first.id, objects | commits, commits, _files(store, first.tree), frozenset(cut))


def single_commit(store: DiskObjectStore, base: bytes) -> Reach:
    """The tree of a commit under a new commit without parents, which is added to the store."""
    original = commit_at(store, base)
    return _single(store, original.tree, original.commit_time)


def commit_everything(store: DiskObjectStore, folder: Path) -> Reach:
    """Everything in a folder under one commit without parents; all of it is added to the store."""
    entries = []
    for path in sorted(folder.rglob("*")):
        name, status = os.fsencode(path.relative_to(folder)), path.lstat()
        if stat.S_ISLNK(status.st_mode):
            blob, mode = Blob.from_string(os.fsencode(path.readlink())), 0o120000
        elif stat.S_ISREG(status.st_mode):
            blob, mode = Blob.from_string(path.read_bytes()), 0o100755 if status.st_mode & stat.S_IXUSR else 0o100644
        else:
            continue
        store.add_object(blob)
        entries.append((name, blob.id, mode))
    return _single(store, commit_tree(store, entries), MADE_TIME)


def _single(store: DiskObjectStore, tree: ObjectID, time: int) -> Reach:
    commit = Commit()
    commit.tree = tree
    commit.author = commit.committer = SINGLE_AUTHOR
    commit.author_time = commit.commit_time = time
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = SINGLE_MESSAGE
    store.add_object(commit)
    objects: set[ObjectID] = set()
    _add_tree(store, tree, objects)
    return Reach(commit.id, {*objects, commit.id}, {commit.id}, _files(store, tree))


def past_tags(store: DiskObjectStore, reach: Reach, tags: Mapping[bytes, bytes]) -> dict[bytes, list[ObjectID]]:
    """The tags that name a commit which `reach` has: name → the objects from tag to commit, one or more."""
    found = {}
    for name, target in tags.items():
        chain = [ObjectID(target)]
        while chain[-1] not in reach.commits and chain[-1] in store and isinstance(tag := store[chain[-1]], Tag):
            chain.append(tag.object[1])
        if chain[-1] in reach.commits:
            found[name] = chain
    return found


def commit_at(store: DiskObjectStore, identifier: bytes) -> Commit:
    """The commit with this id.

    Raises:
        KeyError: There is none.
        ValueError: It is something else.
    """
    found = store[ObjectID(identifier)]
    if not isinstance(found, Commit):
        raise ValueError(f"{identifier.decode()} is no commit")
    return found


def _add_tree(store: DiskObjectStore, root: ObjectID, objects: set[ObjectID]) -> None:
    waiting = [root]
    while waiting:
        identifier = waiting.pop()
        if identifier in objects:
            continue
        objects.add(identifier)
        for entry in _tree_at(store, identifier).iteritems():
            if entry.mode == FOLDER:
                waiting.append(entry.sha)
            elif entry.mode != GITLINK:
                objects.add(entry.sha)


def _files(store: DiskObjectStore, root: ObjectID) -> dict[bytes, tuple[int, ObjectID]]:
    found: dict[bytes, tuple[int, ObjectID]] = {}
    waiting = [(b"", root)]
    while waiting:
        prefix, identifier = waiting.pop()
        for entry in _tree_at(store, identifier).iteritems():
            if entry.path in {b"", b".", b"..", b".git"} or b"/" in entry.path:
                raise ValueError(f"a tree has an entry named {entry.path!r}")
            path = prefix + entry.path
            if entry.mode == FOLDER:
                waiting.append((path + b"/", entry.sha))
            else:
                found[path] = (entry.mode, entry.sha)
        if len(found) > MAX_FILES:
            raise ValueError(f"more than {MAX_FILES} files")
    return found


def _tree_at(store: DiskObjectStore, identifier: ObjectID) -> Tree:
    found = store[identifier]
    if not isinstance(found, Tree):
        raise ValueError(f"{identifier.decode()} is no tree")
    return found
