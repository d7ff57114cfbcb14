"""What validation needs of a grader; `lego_rl.sandbox.task_grader` is one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lego_rl.tasks.reports import Report, TestStatus
from lego_rl.tasks.task import Task

type Variant = Literal["empty", "gold"]
"""What is graded: no change, or the task's own solution."""

VARIANTS: tuple[Variant, ...] = ("empty", "gold")


@dataclass(frozen=True)
class Graded:
    """One grading.

    Attributes:
        reward: 0 or 1.
        ended: How it ended, ``completed`` where the tests ran to their end.
        tests: Status of every test that the task names.
        seconds: Wall-clock seconds.
        report: What the test command left.
    """

    reward: int
    ended: str
    tests: Mapping[str, TestStatus]
    seconds: float
    report: Report = field(default_factory=lambda: Report(b""))


class Grader(Protocol):
    """Grades as a trial would."""

    @property
    def sandboxes(self) -> str:
        """Names what a verdict depends on beside the task: another name, and a task is graded again."""
        ...

    async def look(self, task: Task) -> None:
        """See that a trial would take the task, and that its agent phase is sealed: no network, no hidden test, no
        history with the fix.

        Raises:
            TaskError: A trial would refuse it, or it gives something away.
            SandboxError: It is not, or could not be had.
        """
        ...

    async def grade(self, task: Task, variant: Variant) -> Graded:
        """Grade once, in a fresh sandbox.

        Raises:
            TaskError: The task cannot be graded, whatever is tried.
            SandboxError: The sandbox could not be had: nothing is known of the task.
        """
        ...
