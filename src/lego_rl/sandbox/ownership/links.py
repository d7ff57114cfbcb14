"""The task's own links: what one of them leads to has the place of the link, too, for whoever reads or writes it.

Invariant: only links of the pristine tree that lead to a place inside of it count, whether something is there or not.
They are resolved here, by their texts, since an absolute one names a path of the sandbox.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

MAX_FOLLOWED = 40
"""Links on the way to one place; what takes more is a loop."""
MAX_ALIASES = 64
"""Of one path."""


@dataclass(frozen=True)
class Links:
    """The links of one work tree.

    Attributes:
        pristine: The pristine work tree.
        workdir: Where it is inside.
    """

    pristine: Path
    workdir: str

    def behind(self, path: str) -> str:
        """Where a file is written: behind the links among the folders above it, where these lead into the work tree."""
        above, _, name = path.rpartition("/")
        found = self._resolved(above)[0] if above else ""
        return path if found is None else str(PurePosixPath(found, name))

    def aliases(self, path: str) -> list[str]:
        """Other paths by which a path is reached through links of the task's."""
        found, waiting = dict[str, None](), [path] if self._links_to else []
        while waiting and len(found) < MAX_ALIASES:
            here = end = waiting.pop()
            while end:
                for link in self._links_to.get(end, ()):
                    alias = f"{link}{here.removeprefix(end)}"
                    if alias not in found and alias != path and not alias.startswith(f"{here}/"):
                        found[alias] = None
                        waiting.append(alias)
                end = end.rpartition("/")[0]
        return list(found)

    def leads_to(self, link: str) -> str | None:
        """What a link of the task's leads to; ``None`` where that is no place of the work tree."""
        return self._targets.get(link)

    def on_the_way(self, path: str) -> Iterator[str]:
        """Links that are followed to reach a path, and folders that have to stay what they are."""
        found, followed = self._resolved(path)
        yield from followed
        if found is not None and followed:
            yield from (str(folder) for folder in PurePosixPath(found).parents if str(folder) != ".")

    @property
    def all(self) -> tuple[str, ...]:
        """Every link of the work tree, wherever it leads."""
        return _links_of(self.pristine)

    @cached_property
    def _targets(self) -> dict[str, str]:
        places = ((link, self._resolved(link)[0]) for link in self.all)
        return {link: target for link, target in places if target is not None and target not in (".", link)}

    @cached_property
    def _links_to(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for link, target in self._targets.items():
            found.setdefault(target, []).append(link)
        return found

    def _resolved(self, path: str) -> tuple[str | None, list[str]]:
        """Where a path leads to and the links that it passes; ``None`` for a place outside of the work tree."""
        waiting, here, followed = list(reversed(PurePosixPath(path).parts)), PurePosixPath(), list[str]()
        while waiting:
            part = waiting.pop()
            if part == "..":
                if not here.parts:
                    return None, followed
                here = here.parent
                continue
            here /= part
            if not (self.pristine / here).is_symlink():
                continue
            followed.append(str(here))
            target = PurePosixPath(os.readlink(self.pristine / here))  # noqa: PTH115  # A text, of no path of the host.
            here = here.parent
            if target.is_absolute():
                if len(followed) > MAX_FOLLOWED or not target.is_relative_to(self.workdir):
                    return None, followed
                here, target = PurePosixPath(), target.relative_to(self.workdir)
            if len(followed) > MAX_FOLLOWED:
                return None, followed
            waiting.extend(reversed(target.parts))
        return str(here), followed


@lru_cache(maxsize=32)
def _links_of(pristine: Path) -> tuple[str, ...]:
    """Every link of a pristine tree, which never changes."""
    found, waiting = list[str](), [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(pristine / folder))
        except OSError:
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink():
                found.append(path)
            elif entry.is_dir():
                waiting.append(path)
    return tuple(sorted(found))
