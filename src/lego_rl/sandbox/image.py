"""What a sandbox starts from: a root file system, a pristine work tree, an environment.

Invariant: the agent phase and the grading of a task start from the same image; its pristine tree is a private copy that
no sandbox can write, free of git metadata, with modes that depend on nothing but the execute bit. Git directories are
layers of their own, sealed for the agent phase (`git`).
"""

import hashlib
import os
import posixpath
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.copies import copied, recipe_of
from lego_rl.sandbox.copying import copy_tree, is_plain
from lego_rl.sandbox.deadline import Deadline
from lego_rl.sandbox.dockerfile import NeedsBuildError, Recipe
from lego_rl.sandbox.git.layers import FileSystem, build_layers
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.git.sources import Source
from lego_rl.sandbox.outside_user import give_to_sandbox, outside_uid
from lego_rl.sandbox.paths import is_at_or_below
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.tasks.history import DEFAULT_HISTORY, History

LAYOUT = "2"
"""Changes when the copy of an unchanged source would change."""
COPY_SECONDS = 600.0
"""How long the copy of a task's files may take."""
TREE, AGENT, GRADING, SEAL = "tree", "agent", "grading", "history.json"
"""What a prepared folder holds: the pristine tree, the git directories of either phase, what the agent's are."""

_BUILDING = [threading.Lock() for _ in range(32)]
"""One of them is held while a folder is prepared, so that one thread prepares it and the others wait."""


@dataclass(frozen=True)
class Image:
    """Where a sandbox starts.

    Attributes:
        rootfs: Folder of an unpacked image, or ``None`` for the host's own programs.
        pristine: The work tree before anyone touched it, without git directories.
        workdir: Where the work tree is inside the sandbox.
        env: The image's own environment variables.
        history: What of git the agent phase has.
        git_layers: For each phase a folder with git directories at their absolute paths inside, to be laid over the
            root file system and the work tree. Where there is a `rootfs`, a character device 0/0 in it hides what the
            image has at that path, and a git directory replaces the image's.
    """

    rootfs: Path | None
    pristine: Path
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)
    history: HistorySeal = field(default_factory=HistorySeal)
    git_layers: Mapping[Phase, Path] = field(default_factory=dict)

    def git_layer(self, phase: Phase) -> Path | None:
        """The folder to lay over the root file system."""
        return self.git_layers.get(phase)

    def git_of_work_tree(self, phase: Phase) -> Path | None:
        """The folder to lay over the work tree, where that has git directories."""
        layer = self.git_layers.get(phase)
        folder = None if layer is None else layer / self.workdir.lstrip("/")
        return folder if folder is not None and folder.is_dir() else None


@dataclass(frozen=True)
class PreparedTree:
    """See `Tree`: what all environments have of an image.

    Attributes:
        prepared: The work tree, its git directories and its variables.
    """

    prepared: Image

    @property
    def pristine(self) -> Path:
        """See `Tree`."""
        return self.prepared.pristine

    @property
    def workdir(self) -> str:
        """See `Tree`."""
        return self.prepared.workdir

    @property
    def history(self) -> HistorySeal:
        """See `Tree`."""
        return self.prepared.history


def prepare_image(
    environment: Path, state: State, *, workdir: str, rootfs: Path | None = None, history: History = DEFAULT_HISTORY
) -> Image:
    """Copy a task's ``environment/`` into the cache and seal its history, once for each state of it.

    Args:
        environment: The task's folder with a Dockerfile, a ``repo/`` folder, or both.
        state: Where copies are kept.
        workdir: The work directory where no Dockerfile names one.
        rootfs: Folder of an unpacked image; as root it must belong to the identity that sandboxes have on the host.
        history: How much of its git history the task shows, and when.

    Raises:
        TaskError: There is nothing to make a work tree of, or a repository of the task cannot be sealed.
        NeedsBuildError: The Dockerfile needs a build.
        SandboxError: The root file system is none, or its work directory is a link that leads out of it.
    """
    if rootfs is not None:
        check_rootfs(rootfs)
    recipe = recipe_of(environment, workdir)
    base = _work_tree_of(rootfs, recipe.workdir) if rootfs is not None else None
    return image_of(environment, recipe, state, history, base=base, rootfs=rootfs)


def image_of(
    environment: Path, recipe: Recipe, state: State, history: History, *, base: Path | None, rootfs: Path | None
) -> Image:
    """Copy what a recipe puts into the work directory and seal its history, once for each state of it.

    Args:
        environment: Where the recipe copies from.
        recipe: What is copied.
        state: Where copies are kept.
        history: How much of its git history the task shows, and when.
        base: What lies below it: the work directory of the root file system, if it has one.
        rootfs: The root file system, where it is a folder of the host.

    Raises:
        TaskError: A file that the recipe copies is not there, or a repository of the task cannot be sealed.
        NeedsBuildError: It copies to a place outside the work directory.
    """
    folder = _prepared(environment, recipe, state, history, base, rootfs)
    grading = folder / GRADING if (folder / GRADING).is_dir() else folder / AGENT
    return Image(
        rootfs,
        folder / TREE,
        recipe.workdir,
        recipe.env,
        HistorySeal.read(folder / SEAL),
        {Phase.AGENT: folder / AGENT, Phase.GRADING: grading},
    )


def check_rootfs(rootfs: Path) -> None:
    """Whether a folder can be the root file system of sandboxes.

    Raises:
        SandboxError: It is no unpacked image, or belongs to somebody else.
    """
    if (real := rootfs.resolve()) == Path("/") or Path(sys.prefix).is_relative_to(real):
        raise SandboxError(
            f"{rootfs} is this machine's own root, or holds its Python", "unpack an image into a new folder"
        )
    if not (rootfs / "usr").is_dir():
        raise SandboxError(f"{rootfs} is no root file system (it has no usr/)", "unpack an image there, with its usr/")
    uid = outside_uid()
    if uid is not None and rootfs.stat().st_uid != uid:
        raise SandboxError(
            f"{rootfs} does not belong to the identity that sandboxes have", f"chown -R {uid}:{uid} {rootfs}"
        )


def _work_tree_of(rootfs: Path, workdir: str) -> Path:
    """Where a root file system has its work directory, on the host."""
    folder = rootfs / workdir.lstrip("/")
    if not Path(os.path.realpath(folder)).is_relative_to(rootfs.resolve()):
        raise SandboxError(
            f"the work directory {workdir} of {rootfs} is a link that leads out of it", "name where the link leads"
        )
    return folder


def _prepared(
    environment: Path, recipe: Recipe, state: State, history: History, base: Path | None, rootfs: Path | None
) -> Path:
    sources = copied(environment, recipe)
    if base is not None and base.is_dir():
        sources.insert(0, (base, "."))
    names = "".join(f"{source}\n{target}\n" for source, target in sources)
    about = f"{LAYOUT}\n{environment.resolve()}\n{recipe.workdir}\n{rootfs}\n{history}\n{names}"
    key = fingerprint([source for source, _ in sources], about)
    folder = state.pristine / key
    # The trials of a group start at once, and a long history takes a while.
    with _BUILDING[int(key, 16) % len(_BUILDING)]:
        if not folder.is_dir():
            _build(folder, sources, recipe.workdir, rootfs, history, state)
    return folder


def fingerprint(paths: Iterable[Path], about: str = "") -> str:
    """A name for the state of some files and folders, and for what is said about them."""
    digest = hashlib.sha256(about.encode())
    for source in paths:
        for path, status in _walk(source):
            digest.update(os.fsencode(path))
            digest.update(f" {status.st_mode} {status.st_size} {status.st_mtime_ns} {status.st_ino}\n".encode())
    return digest.hexdigest()[:24]


def _build(
    folder: Path,
    sources: list[tuple[Path, str]],
    workdir: str,
    rootfs: Path | None,
    history: History,
    state: State,
) -> None:
    with state.making(folder) as made:
        tree = made / TREE
        tree.mkdir()
        deadline = Deadline(COPY_SECONDS, f"copying {sources[0][0]}" if sources else "", "ship less with the task")
        for source, target in sources:
            _copy(source, _below(tree, target), deadline)
        parts = [Source(source, posixpath.normpath(posixpath.join(workdir, target))) for source, target in sources]
        seal = build_layers(FileSystem(tree, workdir, parts, rootfs), history, made / AGENT, made / GRADING)
        seal.write(made / SEAL)
        _normalise(tree)
        for path in (made, *made.rglob("*")):
            give_to_sandbox(path)


def _below(tree: Path, target: str) -> Path:
    """Where a path relative to the work tree is in a prepared one, of which no link on the way is followed."""
    if not is_at_or_below(target, "."):
        raise SandboxError(f"a copy to {target} would lie outside of the work tree", "report this as a bug")
    place = tree
    for part in PurePosixPath(target).parts:
        if place.is_symlink():
            raise NeedsBuildError(
                f"{target} would be copied behind the link {place.name}, which needs an image build",
                "copy it to where the link leads, or use Docker",
            )
        if place.name == ".git":
            raise NeedsBuildError(f"{target} would be copied into a git directory", "copy the git directory as a whole")
        place /= part
    return place


def _copy(source: Path, target: Path, deadline: Deadline) -> None:
    if target.name == ".git":
        return
    target.parent.mkdir(parents=True, exist_ok=True)

    def wanted(path: Path, mode: int) -> bool:
        deadline.check()
        if path.name == ".git":
            return False
        if not is_plain(mode):
            raise TaskError(f"{path} is no file, folder or link", "ship files, folders and links only")
        return True

    copy_tree(source, target, wanted)


def _normalise(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)


def _walk(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every path at or below `path` with its status, in a fixed order."""
    status = path.lstat()
    yield str(path), status
    if stat.S_ISDIR(status.st_mode):
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            yield from _walk(Path(entry.path))
