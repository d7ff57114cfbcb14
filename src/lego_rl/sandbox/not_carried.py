"""What of a work tree never is part of a patch, by what it is called or what it holds.

Invariant: nothing here is source. It is made by tools from sources, or says where packages and repositories are, and
would stand in the place of what is tested: byte code, metadata with entry points, installed packages, build output, git
directories under whatever name. Honest agents leave all of it behind without a thought, so it is dropped.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

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
    ".pth": PACKAGE_METADATA,
}
_EDITABLE = "__editable__"
"""How the finders begin that an editable installation writes."""

_BUILD = re.compile(r"(?:.*/)?build/(?:lib|lib\.[^/]*|bdist\.[^/]*|temp\.[^/]*|scripts-[^/]*)")
_REPOSITORY = ("HEAD", "objects", "refs")
"""What makes a git directory of a folder, by git's own criterion."""


def dropped_because(name: str) -> str | None:
    """Why a path whose last part is `name` is never carried over, or ``None``."""
    if name in _NAMES:
        return _NAMES[name]
    # importlib.metadata finds the folders of packages whatever case their names are in.
    lower = name.lower()
    by_suffix = (reason for suffix, reason in _SUFFIXES.items() if lower.endswith(suffix))
    return next(by_suffix, PACKAGE_METADATA if name.startswith(_EDITABLE) else None)


def folder_dropped_because(path: str, holds: Callable[[str], bool], lower: Path | None) -> str | None:
    """Why a folder is never carried over for what it holds, or ``None``.

    Args:
        path: In the work tree.
        holds: Whether a name is in the folder as the sandbox left it.
        lower: The pristine folder; ``None`` where it is new. What it holds counts, too: it says what the folder is.
    """

    def either(name: str) -> bool:
        return holds(name) or (lower is not None and os.path.lexists(lower / name))

    if either("pyvenv.cfg"):
        return VIRTUAL_ENVIRONMENT
    if is_repository(either):
        return GIT_DIRECTORY
    return BUILD_OUTPUT if lower is None and _BUILD.fullmatch(path) else None


def is_repository(holds: Callable[[str], bool]) -> bool:
    """Whether git would take a folder for a git directory, whatever it is called."""
    return all(map(holds, _REPOSITORY))


def is_part_of_repository(name: str) -> bool:
    """Whether a path of the work tree's root is what makes a git directory of it."""
    return name in _REPOSITORY
