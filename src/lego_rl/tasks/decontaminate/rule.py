"""What a rule of decontamination is, and what it is given.

Invariant: every rule says what it found and where, and a task is hit as often as there are reasons. What cannot be
compared is never taken for clean without being counted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from lego_rl.tasks.decontaminate.candidates import Origin, origins_of_reference
from lego_rl.tasks.decontaminate.reference_task import ReferenceTask
from lego_rl.tasks.decontaminate.texts import Texts


class RuleName(StrEnum):
    """What a rule is called, and relaxed by."""

    REPOSITORY = "repository"
    FORK = "fork"
    INSTANCE = "instance"
    PULL_REQUEST = "pull-request"
    COMMIT = "commit"
    ISSUE_TEXT = "issue-text"
    PATCH = "patch"
    PROVENANCE = "provenance"


@dataclass(frozen=True)
class Hit:
    """A reason to leave a task out.

    Attributes:
        task: Place in the index.
        rule: Whose.
        reference: Id of the reference's task, or the repository that many of them share.
        reason: In words.
    """

    task: int
    rule: RuleName
    reference: str
    reason: str


class Reference:
    """A reference, ready to be compared with.

    Args:
        tasks: Its tasks.
    """

    def __init__(self, tasks: Sequence[ReferenceTask]) -> None:
        self.tasks = tasks
        self.origins = origins_of_reference(tasks)

    @cached_property
    def repositories(self) -> frozenset[str]:
        """Canonical names."""
        return frozenset[str]().union(*(origin.repositories for origin in self.origins))

    def by(self, values: Callable[[Origin], Any]) -> dict[Any, str]:
        """Value → id of the first task that has it."""
        found: dict[Any, str] = {}
        for origin in self.origins:
            for value in values(origin):
                found.setdefault(value, origin.instance_id)
        return found


class Rule(ABC):
    """One rule."""

    name: ClassVar[RuleName]
    needs: ClassVar[str]
    """What a task has to have to be compared."""
    comparable: int
    """Tasks of the reference that have it."""

    @abstractmethod
    def hits(self, origins: Sequence[Origin], first: int, texts: Texts | None) -> Iterator[Hit]:
        """What is wrong with some tasks.

        Args:
            origins: The tasks.
            first: Place of the first of them in the index.
            texts: Theirs; ``None`` where they are not read.
        """

    @abstractmethod
    def compares(self, origin: Origin) -> bool:
        """Whether a task has what the rule needs."""
