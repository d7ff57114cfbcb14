"""What a tool call does, whatever the harness calls it."""

import posixpath
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an action is."""

    READ = "read"
    EDIT = "edit"
    TEST = "test"
    SEARCH = "search"
    FINISH = "finish"
    OTHER = "other"


@dataclass(frozen=True)
class Action:
    """One thing that a tool call does; one shell command may do several.

    Attributes:
        kind: What it is.
        path: The file that is read or edited, as the call names it; empty where none is named.
    """

    kind: Kind
    path: str = ""


_PASSING = ("/tmp/", "/dev/", "/var/tmp/", "/proc/")
"""What is written there is no part of the work."""


def edit(path: str) -> Action:
    """An edit of a file; of one that is not part of the work, nothing in particular."""
    return Action(Kind.OTHER if path.startswith(_PASSING) else Kind.EDIT, path)


class Files:
    """Different files, by the paths that calls name them with. A relative path is of any folder: it is the same file as
    a longer path that ends with it."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[str]] = {}

    def add(self, path: str) -> None:
        """Add a file; one that is there already, under another path, stays as it is."""
        if path and path not in self:
            self._by_name.setdefault(posixpath.basename(path), []).append(path.removeprefix("./"))

    def __contains__(self, path: str) -> bool:
        known = self._by_name.get(posixpath.basename(path), ())
        return any(_same(path.removeprefix("./"), other) for other in known)

    def __len__(self) -> int:
        return sum(map(len, self._by_name.values()))


def _same(first: str, second: str) -> bool:
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")
