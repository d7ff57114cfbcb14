"""What a test runner prints, read as a report: the command writes its own output where ``$LEGO_REPORT`` says.

A log is weaker than a report file: whatever the tested code prints is in it. So a status that pytest's lines give twice
is the worse one, what stands between the markers of a log that has them is all that is read, and where the command
failed though the log names no failure, the log is not of the run that was made and nothing in it counts
(the rule of ``swebench.harness.grading.get_logs_eval``, with the host's exit status in place of a printed one).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from lego_rl.tasks.reports.lines import Found, Wanted, between_markers, status_of
from lego_rl.tasks.reports.status import Report, TestStatus

type LogReader = Callable[[str, Iterable[str] | None], Found]
"""What a log says of the tests that are asked for, or of all that it names."""


def line_reader(read: Callable[[str], Iterator[tuple[str, str]]]) -> LogReader:
    """A reader of logs, by what finds tests and statuses in the lines of one."""
    return lambda text, wanted: Found(read(text), None if wanted is None else Wanted(wanted))


class LogParser:
    """A log, by what reads it.

    Args:
        read: Finds tests in it.
        runner: What ran the tests, `PYTEST` or another.
    """

    def __init__(self, read: LogReader, runner: str) -> None:
        self._read = read
        self._runner = runner

    def found(self, report: Report) -> dict[str, TestStatus]:
        """Every test that the log names; none where it contradicts the exit status of the command."""
        return self._found(report, None)

    def statuses(self, report: Report, wanted: Iterable[str]) -> dict[str, TestStatus]:
        """By whole ids or by those that were cut in the middle of their parameters; as `found` else."""
        tests = tuple(wanted)
        found = self._found(report, tests)
        names = sorted(found)
        return {test: cast(TestStatus, status_of(test, found, names)) for test in tests}

    def ambiguous(self, tests: Iterable[str]) -> tuple[str, str] | None:
        """None: a log names tests by their ids."""
        return None

    def check_usable(self) -> None:
        """Nothing is needed that could be missing."""

    def _found(self, report: Report, wanted: Iterable[str] | None) -> dict[str, TestStatus]:
        found = self._read(between_markers(report.content.decode("utf-8", errors="replace")), wanted)
        if found.contradicts(report.exit_status, self._runner):
            return {}
        return {test: cast(TestStatus, status) for test, status in found.statuses.items()}
