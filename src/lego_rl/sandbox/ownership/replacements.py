"""Where something takes the place of something of another kind, both are applied or neither is.

A link in place of a folder comes with the deletion of every file below it, and files below a former file with the
deletion of that one. A part alone would leave a tree that is neither the task's nor the agent's.
"""

import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_rl.sandbox.comparison import is_folder
from lego_rl.sandbox.ownership.split import Reason
from lego_rl.sandbox.verdict import Change


def rolled_back_together(
    changes: Sequence[Change], reasons: Mapping[str, Reason | None], pristine: Path
) -> dict[str, Reason | None]:
    """The reasons why changes are rolled back, with those of the changes that belong to them.

    Args:
        changes: What an agent changed.
        reasons: Path → why it is the task's own; ``None`` where it is not.
        pristine: The pristine work tree.
    """
    found = dict(reasons)
    paths = sorted(found)
    for change in changes:
        first, last = (bisect_left(paths, f"{change.path}{mark}") for mark in ("/", "0"))  # "0" comes after "/"
        if first == last or change.kind == "deleted" or not is_folder(pristine / change.path):
            continue
        unit = [change.path, *paths[first:last]]
        if any(found[path] is not None for path in unit):
            found.update((path, found[path] or Reason.REPLACES_OWN) for path in unit)
    stays = {"": False}
    for path in paths:
        if found[path] is None and _stays(path.rpartition("/")[0], found, pristine, stays):
            found[path] = Reason.REPLACES_OWN
    return found


def _stays(path: str, reasons: Mapping[str, Reason | None], pristine: Path, known: dict[str, bool]) -> bool:
    """Whether a file or link of the task's is kept at a path or above it, asked once for each."""
    if path not in known:
        is_kept = reasons.get(path) is not None and _is_no_folder(pristine / path)
        known[path] = is_kept or _stays(path.rpartition("/")[0], reasons, pristine, known)
    return known[path]


def _is_no_folder(place: Path) -> bool:
    return os.path.lexists(place) and not is_folder(place)
