"""Paths that tasks and images name: what they come to, and what lies at or below what.

Invariant: what is a path of a sandbox is text here and never followed on the host; a path of the host is followed only
within a folder. Names that only look alike do not count: ``/apple`` is not below ``/app``, nor is ``/app/../etc``.
"""

import posixpath
from pathlib import Path


def inside(folder: str, path: str) -> str:
    """The absolute path that `path` is for a program in the absolute `folder`; nothing is above the root."""
    return "/" + posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/")


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it; both are absolute, or relative to the same place."""
    plain, above = (posixpath.normpath(each).replace("//", "/") for each in (path, folder))
    if above == ".":
        return not plain.startswith("/") and plain.split("/")[0] != ".."
    return plain == above or plain.startswith(f"{above.rstrip('/')}/")


def within(folder: Path, path: Path) -> Path | None:
    """The real path of something on the host that exists in `folder`; ``None`` where a link on the way leads out."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # ValueError: a NUL byte in its name
        return None
    return real if real.is_relative_to(folder.resolve()) else None
