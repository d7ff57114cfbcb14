"""Where converted tasks go: each to the folder of its name, unless something is in its place.

Invariant: a task that is there and was made of the same row is not touched, for validation may have written into it;
one that nothing here made is never replaced; and no two names differ by the case of letters alone, since on some file
systems they would be one.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from lego_rl.documents import read_toml
from lego_rl.tasks.directory import TaskDirectory
from lego_rl.tasks.provenance import DeclaredSource, Provenance


@dataclass(frozen=True)
class Refused:
    """Why a row became no task."""

    text: str


type Settled = Literal["written", "unchanged", "replaced"] | Refused


@dataclass(frozen=True)
class Made:
    """What a process made of a row.

    Attributes:
        place: Where the row stands.
        instance: Its id, as far as it has one.
        task: Name of its task; empty where it became none.
        staged: The written directory, still beside the tasks; ``None`` where the task is there already, or is none.
        reason: Why it became none.
    """

    place: str
    instance: str
    task: str = ""
    staged: Path | None = None
    reason: str = ""

    @classmethod
    def of(cls, place: str, instance: str, task: TaskDirectory, out: Path) -> "Made":
        """Write the task of a row beside the others, unless it is there.

        Raises:
            TaskError: It cannot be a directory.
            OSError: The disk does not take it.
        """
        there = source_of(out / task.id)
        if there is not None and task.source is not None and there.is_of_same_row(task.source):
            return cls(place, instance, task.id)
        return cls(place, instance, task.id, task.stage(out))

    def discard(self) -> None:
        """Remove what was written and is not wanted."""
        if self.staged is not None:
            shutil.rmtree(self.staged.parent)


class Place:
    """The folder of a conversion.

    Args:
        out: It.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._names = {path.name.casefold(): path.name for path in out.iterdir()}
        self._taken: dict[str, str] = {}

    def settle(self, made: Made) -> Settled:
        """Give a task its place; what is not wanted is removed.

        Raises:
            OSError: The disk does not take it.
        """
        settled = self._settle(made)
        if isinstance(settled, Refused) or settled == "unchanged":
            made.discard()
        return settled

    def _settle(self, made: Made) -> Settled:
        if not made.task:
            return Refused(made.reason)
        name = made.task.casefold()
        if name in self._taken:
            return Refused(f"its task {made.task} is made of the row at {self._taken[name]} already")
        there = self._names.setdefault(name, made.task)
        if there != made.task:
            return Refused(f"its task {made.task} would differ from {there} by the case of letters alone")
        self._taken[name] = made.place
        if made.staged is None:
            return "unchanged"
        root = self._out / made.task
        if not os.path.lexists(root):
            made.staged.rename(root)
            made.staged.parent.rmdir()
            return "written"
        old, new = source_of(root), source_of(made.staged)
        if old is None or new is None or not old.is_of_same_instance(new):
            return Refused(f"there is another task called {made.task}")
        root.rename(made.staged.with_name("replaced"))
        made.staged.rename(root)
        shutil.rmtree(made.staged.parent)
        return "replaced"


class _Metadata(BaseModel):
    source: DeclaredSource = None


class _Config(BaseModel):
    metadata: _Metadata = _Metadata()


def source_of(task: Path) -> Provenance | None:
    """Where the task in a folder comes from, if it says so."""
    try:
        return _Config.model_validate(read_toml((task / "task.toml").read_text(encoding="utf-8"))).metadata.source
    except (OSError, ValueError, ValidationError):
        return None
