"""What the look at a seal finds, as it comes out of a sandbox: one line for each hole, its kind first.

Invariant: nothing is read off the sentence, which is for people. A line of no known kind is no answer.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from lego_rl.errors import SandboxError


class HoleKind(StrEnum):
    """What is open. The programs that look (``look/``) say these words."""

    HIDDEN = "hidden"
    """A path that must not exist."""
    GIT = "git"
    """A repository that was sealed is not as it was made."""
    STRAY = "stray"
    """Git objects outside of the repositories that were sealed."""
    SHOWN = "shown"
    """A file with what must not be seen in it, under whatever name."""
    REACHED = "reached"
    """Something on a network that answered or refused."""
    NAME = "name"
    """A name that a name service knows."""
    INTERFACE = "interface"
    """A network interface or a route."""
    SOCKET = "socket"
    """A socket of another namespace, or one that leads out of its own."""
    KEY = "key"
    """What opens an API to whoever has it."""
    KERNEL = "kernel"
    """A writable switch, a capability, a lock that is off."""


@dataclass(frozen=True)
class Hole:
    """One hole.

    Attributes:
        kind: What is open.
        said: The sentence that says it.
    """

    kind: HoleKind
    said: str

    @classmethod
    def of_line(cls, line: str) -> Self:
        """The hole that a line tells of.

        Raises:
            SandboxError: It tells of none.
        """
        kind, _, said = line.partition(" ")
        try:
            return cls(HoleKind(kind), said)
        except ValueError as error:
            raise SandboxError(f"the look at the seal gave no hole: {line[:200]!r}", "report this as a bug") from error
