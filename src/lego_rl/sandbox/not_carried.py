"""What of a work tree never is part of a patch, by what it is called or what it holds.

Invariant: nothing here is source. It is made by tools from sources, or says where packages and repositories are, and
would stand in the place of what is tested: byte code, metadata with entry points, installed packages, build output, git
directories under whatever name. Honest agents leave all of it behind without a thought, so it is dropped.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from lego_rl.sandbox.look.files import BARE

GIT_DIRECTORY = "git directory"
BYTE_CODE = "byte code"
PACKAGE_METADATA = "package metadata"
INSTALLED = "installed packages"
VIRTUAL_ENVIRONMENT = "virtual environment"
BUILD_OUTPUT = "build output"
TOOL_CACHE = "tool cache"

_NAMES = {
    ".git": GIT_DIRECTORY,
    "__pycache__": BYTE_CODE,
    "pyvenv.cfg": VIRTUAL_ENVIRONMENT,
    ".pytest_cache": TOOL_CACHE,
    ".mypy_cache": TOOL_CACHE,
    ".ruff_cache": TOOL_CACHE,
    ".hypothesis": TOOL_CACHE,
    ".tox": VIRTUAL_ENVIRONMENT,
    ".nox": VIRTUAL_ENVIRONMENT,
    ".eggs": INSTALLED,
    "node_modules": INSTALLED,
    "site-packages": INSTALLED,
    "dist-packages": INSTALLED,
}
_SUFFIXES = {
    ".pyc": BYTE_CODE,
    ".pyo": BYTE_CODE,
    ".egg-info": PACKAGE_METADATA,
    ".dist-info": PACKAGE_METADATA,
    ".egg-link": PACKAGE_METADATA,
    ".egg": PACKAGE_METADATA,
}
_EDITABLE = "__editable__"
"""How the finders begin that an editable installation writes."""

_BUILD = re.compile(r"(?:.*/)?build/(?:lib|lib\.[^/]*|bdist\.[^/]*|temp\.[^/]*|scripts-[^/]*)")
_PACKAGING = ("setup.py", "setup.cfg", "pyproject.toml")
_OF_REPOSITORY = frozenset({
    *BARE, "branches", "config", "description", "FETCH_HEAD", "hooks", "index", "info", "logs", "modules", "ORIG_HEAD",
    "packed-refs", "reftable", "shallow", "worktrees",
})  # fmt: skip
"""What git writes into a git directory (gitrepository-layout)."""
MIN_HEAD_BYTES = len("ref:refs/")
"""Of a ``HEAD`` that git would take for one; it begins so, or is longer. A product's own may be a short file."""
type Holds = Callable[[str], bool]
"""Whether a folder holds a name; of what makes a git directory, whether it is of the kind that git looks for."""


def makes_repository(name: str, kind: str, size: int) -> bool:
    """Whether one of `BARE` is of the kind that it is in a git directory.

    Args:
        name: Of something in a folder.
        kind: What it is (`comparison.Found`).
        size: Its bytes.
    """
    if name == "HEAD":
        return kind == "symlink" or (kind == "file" and size >= MIN_HEAD_BYTES)
    return kind in ("directory", "symlink")


def dropped_because(name: str) -> str | None:
    """Why a path whose last part is `name` is never carried over, or ``None``."""
    if name in _NAMES:
        return _NAMES[name]
    # importlib.metadata finds the folders of packages whatever case their names are in.
    lower = name.lower()
    by_suffix = (reason for suffix, reason in _SUFFIXES.items() if lower.endswith(suffix))
    return next(by_suffix, PACKAGE_METADATA if name.startswith(_EDITABLE) else None)


def folder_dropped_because(path: str, holds: Holds, lower: Path | None, pristine: Path) -> str | None:
    """Why a folder is never carried over for what it is, or ``None``.

    Args:
        path: In the work tree.
        holds: Whether a name is in the folder as the sandbox left it.
        lower: The pristine folder; ``None`` where it is new. It says what a folder of the task's is.
        pristine: The pristine work tree.
    """
    if lower is not None:
        return _made_of(_holding(lower))
    return _made_of(holds) or (BUILD_OUTPUT if _is_build_output(path, pristine) else None)


def _is_build_output(path: str, pristine: Path) -> bool:
    """Builds write beside the packaging of a project; what is called so in a package of the task's is the product's."""
    above = pristine / PurePosixPath(path).parent.parent
    is_package = (above / "__init__.py").is_file() and not any(os.path.lexists(above / name) for name in _PACKAGING)
    return _BUILD.fullmatch(path) is not None and not is_package


def is_part_of_repository(name: str, holds: Holds, lower: Path | None) -> bool:
    """Whether something in a folder that is carried over belongs to a git directory that was made of the folder.

    Args:
        name: In the folder.
        holds: Whether a name is in the folder as the sandbox left it.
        lower: The pristine folder; what is in it is the task's, whatever it is called.
    """
    pristine = _holding(lower) if lower is not None else _nothing
    if name not in _OF_REPOSITORY or (lower is not None and os.path.lexists(lower / name)):
        return False
    return all(holds(part) or pristine(part) for part in BARE)


def _holding(folder: Path) -> Holds:
    def holds(name: str) -> bool:
        place = folder / name
        if name not in BARE or not os.path.lexists(place):
            return os.path.lexists(place)
        kind = "symlink" if place.is_symlink() else "directory" if place.is_dir() else "file"
        return makes_repository(name, kind, place.lstat().st_size)

    return holds


def _nothing(_: str) -> bool:
    return False


def _made_of(holds: Holds) -> str | None:
    """What a folder is by what it holds, as Python and git tell it, whatever it is called."""
    if holds("pyvenv.cfg"):
        return VIRTUAL_ENVIRONMENT
    return GIT_DIRECTORY if all(map(holds, BARE)) else None
