"""What a sandbox starts from: a root file system, a pristine work tree, an environment.

Invariant: the agent phase and the grading of a task start from the same image; its pristine tree is a private copy that
no sandbox can write, free of git metadata, with modes that depend on nothing but the execute bit.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.dockerfile import Recipe, read_dockerfile
from lego_rl.sandbox.state import State, give_to_sandbox, outside_uid

LAYOUT = "1"
"""Changes when the copy of an unchanged source would change."""


@dataclass(frozen=True)
class Image:
    """Where a sandbox starts.

    Attributes:
        rootfs: Folder of an unpacked image, or ``None`` for the host's own programs.
        pristine: The work tree before anyone touched it.
        workdir: Where the work tree is inside the sandbox.
        env: The image's own environment variables.
    """

    rootfs: Path | None
    pristine: Path
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)


def prepare_image(environment: Path, state: State, *, workdir: str, rootfs: Path | None = None) -> Image:
    """Copy a task's ``environment/`` into the cache, once for each state of it.

    Args:
        environment: The task's folder with a Dockerfile, a ``repo/`` folder, or both.
        state: Where copies are kept.
        workdir: The work directory where no Dockerfile names one.
        rootfs: Folder of an unpacked image; as root it must belong to the identity that sandboxes have on the host.

    Raises:
        TaskError: There is nothing to make a work tree of.
        SandboxError: The Dockerfile needs a build, or the root file system is none.
    """
    if rootfs is not None:
        check_rootfs(rootfs)
    dockerfile = environment / "Dockerfile"
    if dockerfile.is_file():
        recipe = read_dockerfile(dockerfile)
        if recipe.workdir == "/":
            recipe.workdir = workdir
    elif (environment / "repo").is_dir():
        recipe = Recipe(workdir, copies=[("repo", workdir)])
    else:
        raise TaskError(f"{environment} has neither a Dockerfile nor repo/", "add the repository as environment/repo/")
    return Image(rootfs, _pristine(environment, recipe, rootfs, state), recipe.workdir, recipe.env)


def check_rootfs(rootfs: Path) -> None:
    """Whether a folder can be the root file system of sandboxes.

    Raises:
        SandboxError: It is no unpacked image, or belongs to somebody else.
    """
    if not (rootfs / "usr").is_dir():
        raise SandboxError(f"{rootfs} is no root file system (it has no usr/)", "unpack an image there, with its usr/")
    uid = outside_uid()
    if uid is not None and rootfs.stat().st_uid != uid:
        raise SandboxError(
            f"{rootfs} does not belong to the identity that sandboxes have", f"chown -R {uid}:{uid} {rootfs}"
        )


def _pristine(environment: Path, recipe: Recipe, rootfs: Path | None, state: State) -> Path:
    sources = [_copied(environment, name, recipe.workdir, target) for name, target in recipe.copies]
    if rootfs is not None and (base := rootfs / recipe.workdir.lstrip("/")).is_dir():
        sources.insert(0, (base, "."))
    digest = hashlib.sha256(f"{LAYOUT}\n{environment.resolve()}\n".encode())
    for source, target in sources:
        digest.update(f"{source}\n{target}\n".encode())
        for path, status in _walk(source):
            digest.update(os.fsencode(path))
            digest.update(f" {status.st_mode} {status.st_size} {status.st_mtime_ns} {status.st_ino}\n".encode())
    folder = state.pristine / digest.hexdigest()[:24]
    if not folder.is_dir():
        _build(folder, sources)
    return folder


def _build(folder: Path, sources: list[tuple[Path, str]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="build-") as scratch:
        made = Path(scratch) / "tree"
        made.mkdir()
        for source, target in sources:
            _copy(source, made / target)
        _normalise(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignore = shutil.ignore_patterns(".git")
        shutil.copytree(source, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _normalise(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
        give_to_sandbox(path)


def _copied(environment: Path, name: str, workdir: str, target: str) -> tuple[Path, str]:
    """Source and destination of a ``COPY``, the latter relative to the work directory."""
    source = environment / name
    if not source.resolve().is_relative_to(environment.resolve()) or not source.exists():
        raise TaskError(f"{environment} has no {name}, which its Dockerfile copies", "add it or mend the Dockerfile")
    if target.endswith("/") and source.is_file():
        target += source.name
    plain = target.rstrip("/")
    if plain != workdir and not plain.startswith(f"{workdir.rstrip('/')}/"):
        raise SandboxError(
            f"COPY to {target} lies outside the work directory {workdir}", "copy into the work directory"
        )
    return source, os.path.relpath(plain, workdir)


def _walk(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every path at or below `path` with its status, in a fixed order."""
    status = path.lstat()
    yield str(path), status
    if stat.S_ISDIR(status.st_mode):
        for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
            if entry.name != ".git":
                yield from _walk(Path(entry.path))
