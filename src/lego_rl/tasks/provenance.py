"""Where a task comes from: what its ``task.toml`` keeps of the row or the repository that it was made of.

Invariant: nothing here is shown to an agent, and nothing here was measured when it was written.
"""

import re
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

type Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256, in hexadecimal digits."""

type Unmeasured = Literal["image", "tests", "lists"]
"""``image``: nobody here has seen the image or its recipe. ``tests``: nobody here has run the tests. ``lists``: which
tests fail before the fix and pass after it is not known at all, and `lego_rl.tasks.task.Task.load` refuses the task."""


_PULL = re.compile(r"/pull/(\d+)(?:\D|$)")


def _time(value: object) -> object:
    """TOML has times of its own."""
    return value.isoformat() if isinstance(value, date) else value


def pull_request_at(address: str) -> int | None:
    """The number of the pull request at an address, such as a row's ``meta.pr_url``."""
    found = _PULL.search(address)
    return int(found[1]) or None if found else None


class Provenance(BaseModel):
    """``[metadata.source]`` of a ``task.toml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = Field(min_length=1)
    """Of the rows, or how the task was made: a name of `lego_rl.tasks.convert.registry`, ``mined``, ``injected`` …"""
    converter: int = 1
    """Changes when the same row would become another task."""
    instance_id: str = Field(min_length=1)
    """As the row has it; no two tasks of a set have the same."""
    data_source: str = ""
    """The set that it is of, where rows of its format are of one set."""
    repo: str = ""
    """As the row has it: of a mirror, or without an owner, where that is what it says."""
    base_commit: str = ""
    """As the row has it."""
    pull_request: int | None = Field(default=None, ge=1)
    """Number of the pull request that it was made from."""
    created_at: Annotated[str, BeforeValidator(_time)] = ""
    """Of the issue or the pull request, in ISO 8601 where the row says so."""
    licence: str = ""
    """Of the repository."""
    image: str = ""
    """Container image."""
    row_sha256: Digest | None = None
    """Of the row, as compact JSON with sorted keys; ``None`` where there was none."""
    unmeasured: tuple[Unmeasured, ...] = ()
    """What conversion did not try. Validation clears ``lists`` here; the rest only in the index that it writes."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.unmeasured)) != len(self.unmeasured):
            raise ValueError("unmeasured names something twice")
        return self

    def is_of_same_row(self, other: "Provenance") -> bool:
        """Whether both were made of one row in one way."""
        mine = (self.format, self.converter, self.row_sha256)
        return self.row_sha256 is not None and mine == (other.format, other.converter, other.row_sha256)

    def is_of_same_instance(self, other: "Provenance") -> bool:
        """Whether both are of one instance of one data set, whatever their rows say of it."""
        return (self.format, self.instance_id) == (other.format, other.instance_id)


def _table(value: object) -> object:
    return value if isinstance(value, dict) else None


type DeclaredSource = Annotated[Provenance | None, BeforeValidator(_table)]
"""``source`` of ``[metadata]``: a published set may say something of its own there, which is no table."""
