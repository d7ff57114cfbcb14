"""What a test runner prints, read as a report: the command writes its own output where ``$LEGO_REPORT`` says.

A log is weaker than a report file: whatever the tested code prints is in it. So a status that pytest's lines give twice
is the worse one, what stands between the markers of a log that has them is all that is read, and where the command
failed though the log names no failure, the log is not of the run that was made and nothing in it counts
(the rule of ``swebench.harness.grading.get_logs_eval``, with the host's exit status in place of a printed one).
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

from lego_rl.tasks.reports.lines import between_markers, contradicts, status_of
from lego_rl.tasks.reports.status import Report, TestStatus


class LogReader(Protocol):
    """Finds tests in what a runner printed."""

    def __call__(self, text: str, /) -> Mapping[str, str]:
        """Test id → status."""
        ...


class LogParser:
    """A log, by what finds tests in it.

    Args:
        read: Finds them.
    """

    def __init__(self, read: LogReader) -> None:
        self._read = read

    def found(self, report: Report) -> dict[str, TestStatus]:
        """Every test that the log names; none where it contradicts the exit status of the command."""
        found = self._read(between_markers(report.content.decode("utf-8", errors="replace")))
        if contradicts(found, report.exit_status):
            return {}
        return {test: cast(TestStatus, status) for test, status in found.items()}

    def statuses(self, report: Report, wanted: Iterable[str]) -> dict[str, TestStatus]:
        """As `found`, by whole ids or by those that were cut in the middle of their parameters."""
        found = self.found(report)
        names = sorted(found)
        return {test: cast(TestStatus, status_of(test, found, names)) for test in wanted}

    def ambiguous(self, tests: Iterable[str]) -> tuple[str, str] | None:
        """None: a log names tests by their ids."""
        return None

    def check_usable(self) -> None:
        """Nothing is needed that could be missing."""
