"""What a test report is asked: a status for each test, for the ids that ``tests/spec.json`` has.

Invariant: a report is hostile input (the tested code runs in the process that writes it). A parser never raises on it,
and a test that it does not name is ``missing``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

type TestStatus = Literal["passed", "failed", "error", "skipped", "missing"]
"""A test's result. ``missing``: the report does not name it, which is never guessed to be a pass."""


@dataclass(frozen=True)
class Report:
    """What a test command left.

    Attributes:
        content: What lies where ``$LEGO_REPORT`` says.
        exit_status: Of the test command, as the host knows it; ``None`` where it does not.
    """

    content: bytes
    exit_status: int | None = None


class ReportParser(Protocol):
    """One kind of report."""

    def statuses(self, report: Report, wanted: Iterable[str]) -> dict[str, TestStatus]:
        """The status of each test that is asked for."""
        ...

    def ambiguous(self, tests: Iterable[str]) -> tuple[str, str] | None:
        """Two different tests that a report names alike, so that a pass of one would be one of both."""
        ...

    def check_usable(self) -> None:
        """Whether this kind of report can be read here.

        Raises:
            TaskError: Something is not installed.
        """
        ...


class ListingParser(ReportParser, Protocol):
    """A kind of report that tests can be found in whose ids nobody knows yet."""

    def found(self, report: Report) -> dict[str, TestStatus]:
        """Every test that the report names, in its order."""
        ...
