"""Finds tests in what a test runner printed.

This file stands alone: a copy of it lies in ``tests/`` of converted tasks, where stock Harbor runs it with whatever
Python 3.8 or later an image has (`judge.py`). It takes a time that grows with the text and no faster, and never raises.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Iterable, Iterator, Mapping, Sequence  # noqa: UP035  (Python 3.8)

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Between which SWE-bench's evaluation scripts run the tests. A script that echoes its commands prints them quoted."""
STATUSES = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "passed",
    "XPASS": "failed",
}
"""pytest's words. An expected failure passes, as in the data sets' own grading; one that does not come is none that was
asked for."""
SEVERITY = {"missing": 0, "passed": 1, "skipped": 2, "error": 3, "failed": 4}
"""Of two statuses of one test the one that counts."""
PYTEST, OTHER = "pytest", "other"
"""What ran the tests."""
OF_PYTEST = frozenset({
    "parse_log_astroid", "parse_log_astropy", "parse_log_flask", "parse_log_marshmallow", "parse_log_matplotlib",
    "parse_log_pvlib", "parse_log_pydicom", "parse_log_pylint", "parse_log_pytest", "parse_log_pytest_options",
    "parse_log_pytest_v2", "parse_log_pyvista", "parse_log_requests", "parse_log_scikit", "parse_log_seaborn",
    "parse_log_sqlfluff", "parse_log_xarray",
})  # fmt: skip
"""Parsers of swebench for logs of pytest itself; sphinx's is run by tox, which ends as it likes."""
FAILED = frozenset({"failed", "error"})
MAX_LINE = 20_000
"""Characters of a line; in one that is longer no runner names a test, and reading it would hold up all threads."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""What colours a terminal (ECMA-48, 5.4)."""
_WORDS = "|".join(STATUSES)
_SUMMARY = re.compile(rf"({_WORDS}) (\S.*)")
_COUNT = re.compile(r"\[\d+\] ")
_VERBOSE = re.compile(rf"(\S.*?) ({_WORDS})(?: \(.*\))?(?: +\[ *\d+%\])?")
_TIMES = (
    re.compile(r"\s*\[\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\]\s*$", re.IGNORECASE),
    re.compile(r"\s+in\s+\d+(?:\.\d+)?\s+(?:msec|sec)\b", re.IGNORECASE),
    re.compile(r"\s*\(\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\)\s*$", re.IGNORECASE),
)
"""How long a test took, where a runner prints it as a part of its name."""


def between_markers(text: str) -> str:
    """What a log holds between the first start and the last end of its tests; all of it where it has no markers."""
    _, start, rest = text.partition(START)
    if not start:
        return text
    inside, end, _ = rest.rpartition(END)
    return inside if end else rest


class Wanted:
    """The tests that somebody asks for; of a log that makes up millions of others nothing is kept.

    Args:
        tests: Ids, some of which may be cut in the middle of their parameters.
    """

    def __init__(self, tests: Iterable[str]) -> None:
        self._whole = frozenset(tests)
        self._cut = tuple(test for test in self._whole if is_cut(test))
        self.files = frozenset(test.partition("::")[0] for test in self._whole)

    def __contains__(self, test: str) -> bool:
        return test in self._whole or test.startswith(self._cut)


class Found:
    """What a log says: the status of tests, and whether any test of all failed.

    Of a test that is named twice, as by a failing teardown, the worse status counts. Where a file could not be
    collected, none of its tests ran, whatever was printed of them.

    Args:
        said: Tests and statuses in the order of the log.
        wanted: The tests that are kept; all of them where it is `None`.
    """

    def __init__(self, said: Iterable[tuple[str, str]], wanted: Wanted | None) -> None:
        self.statuses: dict[str, str] = {}
        self.failed = False
        broken = set()
        for test, status in said:
            if status in FAILED:
                self.failed = True
                if "::" not in test and (wanted is None or test in wanted.files):
                    broken.add(test)
            if wanted is None or test in wanted:
                self._note(test, status)
        if broken:
            for test in [test for test in self.statuses if test.partition("::")[0] in broken]:
                self._note(test, "error")

    def contradicts(self, exit_status: int | None, runner: str) -> bool:
        """Whether the log is not of the run that was made: the command failed, and no test in it did; or pytest ended
        as it does when it did not run the tests (https://docs.pytest.org, "Exit codes").

        Args:
            exit_status: Of the test command.
            runner: `PYTEST`, or another.
        """
        if exit_status in (0, None):
            return False
        return not self.failed or (runner == PYTEST and exit_status != 1)

    def _note(self, test: str, status: str) -> None:
        self.statuses[test] = max(self.statuses.get(test, "missing"), status, key=SEVERITY.__getitem__)


def pytest_tests(text: str) -> Iterator[tuple[str, str]]:
    """``pytest-log``: pytest's ``-rA`` summary or its ``-v`` lines, of any version; ids as pytest prints them."""
    for found in re.finditer(r"[^\n]+", text):
        if found.end() - found.start() > MAX_LINE:
            continue
        line = _ESCAPES.sub("", found.group()).strip()
        summary = _SUMMARY.fullmatch(line)
        if summary is not None:
            word, rest = summary.groups()
            if not _COUNT.match(rest):  # "SKIPPED [1] path:line: reason" names no test
                yield _without_reason(rest), STATUSES[word]
            continue
        verbose = _VERBOSE.fullmatch(line)
        if verbose is not None:
            yield verbose.group(1), STATUSES[verbose.group(2)]


def r2e_tests(text: str) -> Iterator[tuple[str, str]]:
    """``r2e-log``: the same, with ids as R2E-Gym has them: without a file, with dots, and cut at a blank-dash-blank.

    Tests of two files may have the same id; then the worse one counts.
    """
    return ((r2e_id(test), status) for test, status in pytest_tests(text) if "::" in test)


def r2e_id(test: str) -> str:
    """``path::Class::name[parameters]`` as R2E-Gym writes it."""
    return test.partition("::")[2].replace("::", ".").split(" - ", 1)[0]


def untimed(test: str) -> str:
    """A test's name without how long it took."""
    for pattern in _TIMES:
        test = pattern.sub("", test)
    return test.strip()


def is_cut(test: str) -> bool:
    """Whether an id was cut in the middle of its parameters, as 676 of SWE-bench Verified's are."""
    return test.count("[") > test.count("]")


def status_of(test: str, found: Mapping[str, str], names: Sequence[str]) -> str:
    """A test's status, by its whole id or, where that was cut, by all the ids that begin so, if they agree on passing.

    Args:
        test: The id.
        found: Status by whole id.
        names: Its keys, sorted.
    """
    if test in found:
        return found[test]
    if not is_cut(test):
        return "missing"
    candidates = set()
    for place in range(bisect_left(names, test), len(names)):
        if not names[place].startswith(test):
            break
        candidates.add(found[names[place]])
    if not candidates or ("passed" in candidates and len(candidates) > 1):
        return "missing"
    return max(candidates, key=SEVERITY.__getitem__)


def _without_reason(rest: str) -> str:
    """The id in front of pytest's ``ID - reason``; a dash inside of brackets is a parameter's."""
    depth = 0
    for found in re.finditer(r"\[|\]| - ", rest):
        if found.group() == " - " and depth <= 0:
            return rest[: found.start()]
        depth += {"[": 1, "]": -1}.get(found.group(), 0)
    return rest
