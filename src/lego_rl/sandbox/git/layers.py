"""The git directories of a task as layers over its file system: sealed for the agent, as declared for grading.

Invariant: the pristine work tree has no git directory, and a sealed layer only what `write` wrote. A file that holds
git objects stays where the base commit itself has it as a file, and nowhere else.
"""

import os
import posixpath
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID

from lego_rl.errors import TaskError
from lego_rl.sandbox.copying import copy_tree, is_plain
from lego_rl.sandbox.git.manifest import HistorySeal, SealedRepository, ids_digest, sealed_files
from lego_rl.sandbox.git.reachable import (
    GITLINK,
    Reach,
    commit_everything,
    damage_of,
    past_tags,
    reach_of,
    single_commit,
)
from lego_rl.sandbox.git.search import Found, Place, search, search_root, work_tree_of
from lego_rl.sandbox.git.shipped import Shipped
from lego_rl.sandbox.git.sources import Source, Sources
from lego_rl.sandbox.git.write import WorkTree, write_repository
from lego_rl.sandbox.paths import is_at_or_below
from lego_rl.sandbox.seal_request import KERNEL_FOLDERS
from lego_rl.tasks.history import History

OPAQUE = "user.overlay.opaque"
"""Hides what a lower layer has in the folder (the kernel's Documentation/filesystems/overlayfs.rst)."""


@dataclass(frozen=True)
class FileSystem:
    """What a sandbox starts from, on the host.

    Attributes:
        pristine: The work tree.
        workdir: Where it is inside, absolute.
        parts: What the work tree was copied from.
        rootfs: The unpacked image below it, if there is one.
    """

    pristine: Path
    workdir: str
    parts: Sequence[Source]
    rootfs: Path | None

    @property
    def sources(self) -> Sources:
        """Every folder of the task."""
        root = [] if self.rootfs is None else [Source(self.rootfs, "/")]
        return Sources([*root, *self.parts])

    def search(self) -> Found:
        """Repositories and strays in the work tree, and in the image around it."""
        found = search(self.parts, self.sources)
        if self.rootfs is not None:
            skipped = frozenset(KERNEL_FOLDERS) | {self.workdir}
            found.include(search_root(Source(self.rootfs, "/"), self.sources, skipped))
        return found

    def in_work_tree(self, inside: str) -> bool:
        """Whether an absolute path belongs to the pristine tree."""
        return is_at_or_below(inside, self.workdir)

    def host(self, inside: str) -> Path:
        """Where the sandbox's absolute path is on the host."""
        if self.in_work_tree(inside) or self.rootfs is None:
            return self.pristine / posixpath.relpath(inside, self.workdir)
        return self.rootfs / inside.lstrip("/")


def build_layers(files: FileSystem, history: History, agent: Path, grading: Path) -> HistorySeal:
    """Seal every repository of a task.

    Args:
        files: The task; bare repositories are taken out of its pristine tree.
        history: What the task asks for.
        agent: A folder to make, with the git directories of the agent phase at their absolute paths inside.
        grading: The same for grading; it is made where the task wants other ones.

    Raises:
        TaskError: A repository cannot be sealed, or a file holds git objects that no commit has as a file.
    """
    found = files.search()
    main = posixpath.join(files.workdir, ".git")
    if history.base_commit is not None and main not in found.places:
        raise TaskError(
            f"there is no git repository at {files.workdir}, and the task names its base_commit",
            "ship the repository with its .git, or remove [metadata] base_commit",
        )
    agent.mkdir()
    if history.grading != "same":
        grading.mkdir()
    return _Builder(files, history, agent, grading).build(found)


@dataclass
class _Builder:
    files: FileSystem
    history: History
    agent: Path
    grading: Path
    trees: dict[str, Reach] = field(default_factory=dict)
    """What the base commit of each work tree reaches, by the tree's absolute path."""
    repositories: list[SealedRepository] = field(default_factory=list)
    fixtures: list[str] = field(default_factory=list)

    def build(self, found: Found) -> HistorySeal:
        for place in sorted(found.places.values(), key=lambda place: (place.bare, len(place.work_tree))):
            if place.bare and self._is_fixture(place.inside, place.entry):
                self.fixtures.append(place.inside)
                continue
            self._seal(place)
            if place.bare and self.files.in_work_tree(place.inside):
                shutil.rmtree(self.files.host(place.inside))
                self.files.pristine.mkdir(exist_ok=True)  # It may have been the work tree itself.
        main = posixpath.join(self.files.workdir, ".git")
        if self.history.agent == "single-commit" and main not in found.places:
            self._make(main)
        for inside, path in found.broken.items():
            self._hide(inside)
            if self.history.grading == "full" and self.files.in_work_tree(inside):
                copy_as_it_is(path, self._at(self.grading, inside))
        for inside, path in found.strays.items():
            if self._is_fixture(inside, path):
                self.fixtures.append(inside)
            elif self.files.in_work_tree(inside):
                raise TaskError(
                    f"{path} holds git objects outside of a repository, which cannot be sealed",
                    "remove it from environment/, or commit it",
                )
            else:
                self._hide(inside)
        return HistorySeal(tuple(self.repositories), tuple(self.fixtures))

    def _seal(self, place: Place) -> None:
        if self.history.grading == "full" and self.files.in_work_tree(place.inside):
            copy_as_it_is(place.entry, self._at(self.grading, place.inside))
        work_tree = None if place.bare else self.files.host(place.work_tree)
        with damage_of(place.entry), _opened(Shipped(place, self.files.sources), self.agent.parent) as (shipped, store):
            base = self._base(place, shipped, store)
            reach = None if base is None else reach_of(store, base, shipped.shallow())
            if reach is not None and not place.bare:
                self.trees[place.work_tree] = reach
            if self.history.grading == "tags":
                tags = {} if reach is None else past_tags(store, reach, shipped.tags())
                target = self._replacing(self.grading, place.inside)
                write_repository(target, store, reach, work_tree=work_tree, tags=tags)
            if self.history.agent == "none":
                self._hide(place.inside)
                return
            if self.history.agent == "single-commit" and base is not None:
                reach = single_commit(store, base)
            self._check_withheld(place, reach)
            target = self._replacing(self.agent, place.inside)
            write_repository(target, store, reach, work_tree=work_tree)
            self.repositories.append(_described(place.inside, target, reach))

    def _check_withheld(self, place: Place, reach: Reach | None) -> None:
        """What no history may give away is in none, unless the base commit itself has it."""
        if reach is None:
            return
        past = {name.decode() for name in reach.objects.difference(name for _, name in reach.tree.values())}
        for prefix, what in self.history.withheld:
            if prefix in past or (len(prefix) < 40 and any(name.startswith(prefix) for name in past)):
                raise TaskError(
                    f"the history of {place.entry} holds {what}, which the agent must not see",
                    'set [metadata] history = "single-commit"',
                )

    def _make(self, inside: str) -> None:
        """A repository for a work tree that has none, of one commit that has everything."""
        tree, target = self.files.pristine, self._replacing(self.agent, inside)
        with _scratch(self.agent.parent) as scratch, closing(DiskObjectStore.init(scratch / "objects")) as store:
            reach = commit_everything(store, tree)
            write_repository(target, store, reach, work_tree=tree)
        self.repositories.append(_described(inside, target, reach))

    def _base(self, place: Place, shipped: Shipped, store: DiskObjectStore) -> bytes | None:
        """The commit that the agent starts from: the task's, or what the repository around it names, or ``HEAD``."""
        if place.bare:
            return shipped.head()
        if place.work_tree == self.files.workdir and self.history.base_commit is not None:
            return self.history.base_commit.encode()
        around = work_tree_of(place.work_tree, self.trees)
        if around is not None:
            name = os.fsencode(posixpath.relpath(place.work_tree, around))
            mode, commit = self.trees[around].tree.get(name, (0, ObjectID(b"")))
            if mode == GITLINK and commit in store:
                return commit
        return shipped.head()

    def _is_fixture(self, inside: str, path: Path) -> bool:
        """Whether everything at a path is a file of the base commit of the work tree that it is in."""
        around = work_tree_of(inside, self.trees)
        if around is None:
            return False
        tree, compared = self.trees[around].tree, WorkTree(path.parent)
        top = os.fsencode(posixpath.relpath(posixpath.dirname(inside), around))
        inner = [path] if path.is_file() else path.rglob("*")
        for file in (each for each in inner if each.is_symlink() or not each.is_dir()):
            relative = os.fsencode(file.relative_to(path.parent))
            _, name = tree.get(posixpath.normpath(top + b"/" + relative), (0, ObjectID(b"")))
            if name.decode() != compared.blob_id(relative):
                return False
        return True

    def _hide(self, inside: str) -> None:
        """Take a path of the image away. Nothing has to be done in the work tree, which is a copy without it."""
        if not self.files.in_work_tree(inside):
            self._at(self.agent, inside).unlink(missing_ok=True)
            os.mknod(self._at(self.agent, inside), stat.S_IFCHR | 0o600, os.makedev(0, 0))

    def _replacing(self, layer: Path, inside: str) -> Path:
        """A new folder of a layer, in place of whatever the image has there."""
        target = self._at(layer, inside)
        target.mkdir()
        if not self.files.in_work_tree(inside):
            os.setxattr(target, OPAQUE, b"y")
        return target

    def _at(self, layer: Path, inside: str) -> Path:
        """Where a layer has an absolute path of the sandbox; folders above it are as the image has them."""
        target = layer
        for name in posixpath.dirname(inside).strip("/").split("/"):
            target = target / name
            if not target.is_dir():
                target.mkdir()
                original = self.files.host("/" + str(target.relative_to(layer)))
                if original.is_dir():
                    shutil.copystat(original, target)
        return layer / inside.lstrip("/")


@contextmanager
def _scratch(beside: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="objects-", dir=beside) as folder:
        yield Path(folder)


@contextmanager
def _opened(shipped: Shipped, beside: Path) -> Iterator[tuple[Shipped, DiskObjectStore]]:
    with _scratch(beside) as scratch, shipped.objects(scratch) as store:
        yield shipped, store


def _described(inside: str, target: Path, reach: Reach | None) -> SealedRepository:
    objects: set[ObjectID] = set() if reach is None else reach.objects
    return SealedRepository(inside, len(objects), ids_digest(objects), sealed_files(target))


def copy_as_it_is(entry: Path, target: Path) -> None:
    """Copy a git directory, or the file or link that stands for one; links are kept, sockets and pipes left out."""
    copy_tree(entry, target, lambda _, mode: is_plain(mode))
