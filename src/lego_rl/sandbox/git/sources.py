"""Where the parts of a task's file system lie on the host.

Invariant: a path that the task names (a gitfile, an alternate, a link) becomes a path of the host only if what it names
lies in one of the task's own folders. Whatever leads out of them does not exist.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.paths import is_at_or_below, within


@dataclass(frozen=True)
class Source:
    """A folder or file of the task.

    Attributes:
        host: Where it is on the host.
        inside: Its absolute path in the sandbox.
    """

    host: Path
    inside: str


@dataclass(frozen=True)
class Sources:
    """Everything a sandbox's file system is made of, in the order of copying: later ones cover earlier ones."""

    parts: Sequence[Source]

    def host_path(self, inside: str) -> Path | None:
        """What is at an absolute path of the sandbox, on the host; ``None`` where the task has nothing there."""
        plain = posixpath.normpath(inside)
        for part in reversed(self.parts):
            if is_at_or_below(plain, part.inside):
                found = within(part.host, part.host / posixpath.relpath(plain, part.inside))
                if found is not None:
                    return found
        return None
