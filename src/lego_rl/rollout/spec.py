"""What is to be run: one `TrialSpec` says everything that decides a trial.

Invariant: a specification's id is a function of its content alone. Two different trials never share an id, and the same
trial has the same id in every process, so a resumed run finds what it has already paid for. How many others its group
has is not what a trial is: a group that grows keeps the trials that it has.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from lego_rl.errors import ConfigError
from lego_rl.gateway.budget import Budget
from lego_rl.harness.base import OptionValue

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_CHARS = 48


class Grading(StrEnum):
    """Whether the agent's change is graded."""

    FRESH = "fresh"
    """By the task's own tests in a sandbox that the agent never touched."""
    NONE = "none"
    """Not at all: the trial is only recorded (demonstrations)."""


@dataclass(frozen=True)
class HarnessChoice:
    """Which harness works on the task.

    Attributes:
        name: Registry name, such as ``claude-code``.
        options: The harness's official options, as the recipe gives them.
    """

    name: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialSpec:
    """One trial: one attempt of one harness at one task.

    Attributes:
        task: The Harbor task directory.
        label: What the trial is part of, such as ``train/step-0003`` or ``heldout/before``.
        group: Trials of one label with the same group are compared with each other; by default the task's name.
        attempt: Index of this trial in its group, in ``[0, attempts)``.
        attempts: Trials of the group (n); no part of the id.
        seed: Seed of the sampling of this trial.
        temperature: Sampling temperature; 0 for greedy decoding.
        budget: What the trial may spend.
        harness: Which harness works on the task.
        grading: Whether the agent's change is graded.
        family: The task's family, for summaries: the task directory may be gone when they are made.
        split: The task's split, likewise.
        content_digest: Of all that the task directory holds (`tasks.content`); ``None`` where nobody looked.

    Raises:
        ConfigError: The label is not a path of safe names, or `attempt` is outside the group.
    """

    task: Path
    label: str
    attempt: int
    attempts: int
    seed: int
    temperature: float
    budget: Budget
    harness: HarnessChoice
    group: str = ""
    grading: Grading = Grading.FRESH
    family: str = "unknown"
    split: str = "default"
    content_digest: str | None = None

    def __post_init__(self) -> None:
        if not _LABEL.match(self.label):
            raise ConfigError(
                f"trial label {self.label!r} is not a path of plain names",
                "use letters, digits, '.', '_', '-' and '/', as in train/step-0003",
            )
        if not 0 <= self.attempt < self.attempts:
            raise ConfigError(
                f"attempt {self.attempt} is outside the group of {self.attempts}", "count attempts from 0 to n - 1"
            )
        if not self.group:
            object.__setattr__(self, "group", self.task.name)

    @cached_property
    def id(self) -> str:
        """A name that is safe in every file system and unique: readable parts, then a digest of the whole content."""
        slugs = (_slug(self.label), _slug(self.group), f"{self.attempt:03d}", self.digest[:12])
        return "--".join(slugs)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content but for `attempts`. The task counts by its name and by what it holds, not by where it
        lies, so that a run directory can move with its tasks."""
        content = SPEC_JSON.dump_python(self, mode="json")
        del content["attempts"]
        content["task"] = self.task.name
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a batch, for machines that share the work without talking to each other.

    Attributes:
        index: Which part, in ``[0, count)``.
        count: How many parts.

    Raises:
        ConfigError: `index` is outside ``[0, count)``.
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ConfigError(f"shard {self.index}/{self.count} does not exist", "count shards from 0 to n - 1")

    def of(self, specs: Sequence[TrialSpec]) -> list[TrialSpec]:
        """The specifications of this part: whole groups. Which part a group is of depends on its own name alone, so
        that a batch of fewer or more groups moves none from one machine to another."""
        return [spec for spec in specs if _place(spec.group) % self.count == self.index]


def _place(group: str) -> int:
    return int.from_bytes(hashlib.sha256(group.encode(errors="surrogateescape")).digest()[:8])


def _slug(text: str) -> str:
    return _UNSAFE.sub(".", text).strip(".")[:_SLUG_CHARS] or "x"


SPEC_JSON = TypeAdapter(TrialSpec)
"""Writes a specification as JSON and reads it back."""
