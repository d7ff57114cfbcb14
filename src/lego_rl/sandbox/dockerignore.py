"""What a ``.dockerignore`` leaves out of a build: the client's part of it, which the daemon does not do.

Invariant: a pattern means what it means to Docker (its documentation, ".dockerignore files"): it matches a whole path
below the context or a folder above it, the last one that matches decides, and what a build is read from always goes.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.sandbox.dockerfile import dockerfile_text

IGNORE_FILE = ".dockerignore"
ALWAYS_SENT = ("Dockerfile", IGNORE_FILE)

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[(\^?)((?:\\.|[^\]\\])+)\]|\\(.)|(.)", re.DOTALL)


@dataclass(frozen=True)
class Ignored:
    """The patterns of a folder.

    Attributes:
        rules: In order: what a path has to look like, and whether it is left out then or comes back.
    """

    rules: tuple[tuple[re.Pattern[str], bool], ...] = ()

    @classmethod
    def by(cls, context: Path) -> "Ignored":
        """Read the ``.dockerignore`` of a build context; nothing is left out where there is none.

        Raises:
            TaskError: It is no text, or a pattern cannot be read.
        """
        path = context / IGNORE_FILE
        if not path.is_file():
            return cls()
        lines = (line.strip() for line in dockerfile_text(path).split("\n") if not line.startswith("#"))
        return cls(tuple(_rule(line, path) for line in lines if line))

    def leaves_out(self, path: str) -> bool:
        """Whether a path relative to the context is left out."""
        if path in ALWAYS_SENT:
            return False
        parts = path.split("/")
        places = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        left_out = False
        for pattern, leaves in self.rules:
            if leaves != left_out and any(map(pattern.fullmatch, places)):
                left_out = leaves
        return left_out


def _rule(line: str, path: Path) -> tuple[re.Pattern[str], bool]:
    plain = posixpath.normpath(line.removeprefix("!").strip()).lstrip("/")
    try:
        return re.compile("".join(_translated(plain)), re.DOTALL), not line.startswith("!")
    except re.error as error:
        raise TaskError(f"{path}: {line} is no pattern: {error}", "mend it") from error


def _translated(pattern: str) -> Iterator[str]:
    for found in _PARTS.finditer(pattern):
        negated, members, escaped, plain = found.groups()
        match found[0]:
            case "**/":
                yield "(?:.*/)?"
            case "**":
                yield ".*"
            case "*":
                yield "[^/]*"
            case "?":
                yield "[^/]"
            case _ if members is not None:
                yield f"[{negated}{members.replace('[', chr(92) + '[')}]"
            case _:
                yield re.escape(escaped or plain)
