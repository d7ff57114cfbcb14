"""What a test runner prints, read as a report: the command writes its own output where ``$LEGO_REPORT`` says.

A log is weaker than a report file: whatever the tested code prints is in it. So a status that the log gives twice is
the worse one, what stands between the markers of a log that has them is all that is read, and where the command failed
though the log names no failure, the log is not of the run that was made and nothing in it counts
(the rule of ``swebench.harness.grading.get_logs_eval``, with the host's exit status in place of a printed one).
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Protocol

from lego_rl.tasks.reports.status import SEVERITY, Report, TestStatus

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Between which SWE-bench's evaluation scripts run the tests. A script that echoes its commands prints them quoted."""
FAILED: frozenset[TestStatus] = frozenset({"failed", "error"})

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""What colours a terminal (ECMA-48, 5.4)."""
_PYTEST: Mapping[str, TestStatus] = {
    "PASSED": "passed", "FAILED": "failed", "ERROR": "error", "SKIPPED": "skipped", "XFAIL": "passed",
    "XPASS": "failed",
}  # fmt: skip
"""An expected failure passes, as in the data sets' own grading; one that does not come is none that was asked for."""
_SUMMARY = re.compile(rf"({'|'.join(_PYTEST)}) (\S.*)")
_COUNT = re.compile(r"\[\d+\] ")
_VERBOSE = re.compile(rf"(\S.*?) ({'|'.join(_PYTEST)})(?: \(.*\))?(?: +\[ *\d+%\])?")


class LogReader(Protocol):
    """Finds tests in what a runner printed."""

    def __call__(self, text: str, /) -> Mapping[str, TestStatus]:
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
        found = dict(self._read(between_markers(report.content.decode("utf-8", errors="replace"))))
        if report.exit_status not in (0, None) and FAILED.isdisjoint(found.values()):
            return {}
        return found

    def statuses(self, report: Report, wanted: Iterable[str]) -> dict[str, TestStatus]:
        """As `found`, by whole ids or by those that were cut in the middle of their parameters."""
        found = self.found(report)
        names = sorted(found)
        return {test: found.get(test) or _of_cut(test, found, names) for test in wanted}

    def ambiguous(self, tests: Iterable[str]) -> tuple[str, str] | None:
        """None: a log names tests by their ids."""
        return None

    def check_usable(self) -> None:
        """Nothing is needed that could be missing."""


def read_pytest(text: str) -> dict[str, TestStatus]:
    """The tests of pytest's output. A test that is named twice, as by a failing teardown, has the worse status."""
    found: dict[str, TestStatus] = {}
    for test, status in _pytest_lines(text):
        known = found.get(test, "missing")
        found[test] = max(known, status, key=SEVERITY.__getitem__)
    return found


def between_markers(text: str) -> str:
    """What a log holds between the first start and the last end of its tests; all of it where it has no markers."""
    _, start, rest = text.partition(START)
    if not start:
        return text
    inside, end, _ = rest.rpartition(END)
    return inside if end else rest


def is_cut(test: str) -> bool:
    """Whether an id was cut in the middle of its parameters, as 676 of SWE-bench Verified's are."""
    return test.count("[") > test.count("]")


def _of_cut(test: str, found: Mapping[str, TestStatus], names: Sequence[str]) -> TestStatus:
    """The status of a cut id: that of all the tests that begin so, where they agree on whether they passed.

    Args:
        test: The id.
        found: Status by whole id.
        names: Its keys, sorted.
    """
    if not is_cut(test):
        return "missing"
    begin_so = takewhile(lambda name: name.startswith(test), islice(names, bisect_left(names, test), None))
    candidates = {found[name] for name in begin_so}
    if not candidates or ("passed" in candidates and len(candidates) > 1):
        return "missing"
    return max(candidates, key=SEVERITY.__getitem__)


def _pytest_lines(text: str) -> Iterator[tuple[str, TestStatus]]:
    for raw in _ESCAPES.sub("", text).splitlines():
        line = raw.strip()
        if (summary := _SUMMARY.fullmatch(line)) is not None:
            word, rest = summary.groups()
            if not _COUNT.match(rest):  # "SKIPPED [1] path:line: reason" names no test
                yield _without_reason(rest), _PYTEST[word]
        elif (verbose := _VERBOSE.fullmatch(line)) is not None:
            yield verbose[1], _PYTEST[verbose[2]]


def _without_reason(rest: str) -> str:
    """The id in front of pytest's ``ID - reason``; a dash inside of brackets is a parameter's."""
    depth = 0
    for found in re.finditer(r"\[|\]| - ", rest):
        if found[0] == " - " and depth <= 0:
            return rest[: found.start()]
        depth += {"[": 1, "]": -1}.get(found[0], 0)
    return rest
