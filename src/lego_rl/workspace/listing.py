"""Which files of a workspace an agent is handed, and which are left out, and why.

Rule: what git tracks or would add; in a folder without git, everything but what tools make again. Never: git's own
folders, files that hold secrets by custom, what is no file and no link. What somebody names is handed over in any case.
"""

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lego_rl.errors import ConfigError
from lego_rl.workspace.secret_files import is_secret

_MADE = frozenset({
    "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache",
    ".gradle", ".terraform", ".next", ".DS_Store",
})  # fmt: skip
"""What tools make again, where no git says what is ignored."""
_REPOSITORIES = frozenset({".git", ".hg", ".svn", ".jj"})
UNDO = ".lego-rl-undo"
"""What `apply` keeps in a workspace while it works."""
_GIT_SECONDS = 120.0


class Reason(StrEnum):
    """Why a path is left out."""

    IGNORED = "ignored by git"
    MADE = "made by tools"
    SECRET = "may hold secrets"
    REPOSITORY = "of a version control"
    SPECIAL = "no file and no link"


@dataclass(frozen=True)
class Listing:
    """What of a workspace is handed over.

    Attributes:
        files: Paths of files and links relative to the workspace, POSIX form, sorted.
        left_out: Path → why not; a folder stands for all in it.
        named: What somebody asked to hand over whatever it is.
    """

    files: tuple[str, ...]
    left_out: dict[str, Reason]
    named: tuple[str, ...] = ()


def list_workspace(root: Path, include: Sequence[str] = ()) -> Listing:
    """Choose what is handed over.

    Args:
        root: The workspace.
        include: Files and folders in it that are handed over whatever they are, secrets too where a file is named.

    Raises:
        ConfigError: A path of `include` is not there, or git cannot list the files.
    """
    left_out: dict[str, Reason] = {}
    listed = _of_git(root, left_out) if _is_in_work_tree(root) else _walk(root, "", left_out)
    chosen = set(_handed(root, listed, left_out))
    for named in include:
        chosen |= set(_named(root, named, left_out))
    return Listing(tuple(sorted(chosen)), dict(sorted(left_out.items())), tuple(include))


def _handed(root: Path, paths: Iterable[str], left_out: dict[str, Reason]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")
        if path == UNDO or parts[0] == UNDO:
            continue
        if not _REPOSITORIES.isdisjoint(parts):
            left_out[path] = Reason.REPOSITORY
        elif is_secret(path):
            left_out[path] = Reason.SECRET
        elif _is_plain(root / path):
            yield path
        elif os.path.lexists(root / path):
            left_out[path] = Reason.SPECIAL


def _named(root: Path, named: str, left_out: dict[str, Reason]) -> Iterator[str]:
    place = root / named
    relative = os.path.relpath(place, root).replace(os.sep, "/")
    if relative.startswith("../") or relative == ".." or not os.path.lexists(place):
        raise ConfigError(f"there is no {named} in {root}", "name a path in the workspace, relative to it")
    for path in [key for key in left_out if key.rstrip("/") == relative]:
        del left_out[path]
    if _is_plain(place):
        yield relative
    else:
        yield from _handed(root, _every(root, relative), left_out)


def _every(root: Path, folder: str) -> Iterator[str]:
    for entry in sorted(os.scandir(root / folder), key=lambda entry: entry.name):
        path = f"{folder}/{entry.name}" if folder not in ("", ".") else entry.name
        if entry.is_dir(follow_symlinks=False) and entry.name not in _REPOSITORIES:
            yield from _every(root, path)
        else:
            yield path


def _walk(root: Path, folder: str, left_out: dict[str, Reason]) -> Iterator[str]:
    for entry in sorted(os.scandir(root / folder), key=lambda entry: entry.name):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name in _REPOSITORIES:
            left_out[f"{path}/"] = Reason.REPOSITORY
        elif entry.name in _MADE:
            left_out[path] = Reason.MADE
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path, left_out)
        else:
            yield path


def _is_plain(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _is_in_work_tree(root: Path) -> bool:
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return False
    return _git(root, "rev-parse", "--is-inside-work-tree").strip() == b"true"


def _of_git(root: Path, left_out: dict[str, Reason], prefix: str = "") -> Iterator[str]:
    """What git tracks or would add; submodules and repositories inside likewise."""
    here = root / prefix
    for path in _paths(_git(here, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")):
        left_out[prefix + path] = Reason.IGNORED
    for path in dict.fromkeys(_paths(_git(here, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))):
        inner = prefix + path
        if (root / inner).is_dir() and not (root / inner).is_symlink():
            below = inner.rstrip("/") + "/"
            if (root / below / ".git").exists():
                yield from _of_git(root, left_out, below)
        else:
            yield inner


def _paths(listed: bytes) -> list[str]:
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _git(folder: Path, *arguments: str) -> bytes:
    """Ask git; nothing that the repository configures is run."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        env.pop(name, None)
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except FileNotFoundError as error:
        raise ConfigError(f"{folder} is of git, and git is not installed", "install git") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"git does not list the files of {folder}", "run git status there, and mend it") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise ConfigError(f"git does not list the files of {folder}: {said[:200]}", "run git status there, and mend it")
    return done.stdout
