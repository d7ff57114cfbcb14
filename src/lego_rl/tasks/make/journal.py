"""What has been found out already, so that a run that was stopped goes on where it was: one line a finding.

Invariant: a line is whole or it does not count, and its key names everything that the finding depends on.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from lego_rl import durable
from lego_rl.documents import read_json

METHOD = "4"
"""Changes when the same source would be judged otherwise."""


class Findings:
    """Findings by key, kept in a file.

    Args:
        path: The file; what cannot be read of it does not count.
        sandboxes: Names the sandboxes that findings are made in; those of others do not count.
    """

    def __init__(self, path: Path, sandboxes: str = "") -> None:
        self._path = path
        self._sandboxes = sandboxes
        self._known: dict[str, Any] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = read_json(line)
                    self._known[entry["key"]] = entry["found"]
                except (ValueError, TypeError, KeyError):
                    continue

    def get(self, *key: str) -> Any | None:
        """A finding, as it was written; ``None`` where there is none."""
        return self._known.get(_named((self._sandboxes, *key)))

    def put(self, found: Any, *key: str) -> None:
        """Write a finding down: plain data."""
        name = _named((self._sandboxes, *key))
        self._known[name] = found
        durable.append_line(self._path, json.dumps({"key": name, "found": found}))


def _named(key: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join((METHOD, *key)).encode()).hexdigest()[:24]
