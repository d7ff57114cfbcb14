"""pytest's ``--junitxml``, of any family: one entry a test, read without keeping what nobody asked for."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from xml.parsers import expat

from lego_rl.tasks.reports.lines import SEVERITY
from lego_rl.tasks.reports.status import Report, TestStatus

MAX_TAG_BYTES = 1 << 21
"""Of one tag: until a tag with all its attributes is read, no other thread of this process runs."""
CHUNK_BYTES = 1 << 18

_ELEMENTS: Mapping[str, TestStatus] = {"failure": "failed", "error": "error", "skipped": "skipped"}


class JunitParser:
    """``pytest-junit``. Ids are as pytest prints them: ``path::[Class::]name[parameters]``.

    The command's exit status says nothing more: pytest writes an entry for whatever makes it fail.
    """

    def statuses(self, report: Report, wanted: Iterable[str]) -> dict[str, TestStatus]:
        """Where a test is named twice (a failing teardown adds an entry) the worse status counts."""
        keys = {test: junit_key(test) for test in wanted}
        found = _junit_cases(report.content, frozenset(keys.values()))
        return {test: found.get(key, "missing") for test, key in keys.items()}

    def ambiguous(self, tests: Iterable[str]) -> tuple[str, str] | None:
        """Two tests whose paths, classes and names run together: separators become dots, and names may hold dots."""
        by_key: dict[tuple[str, str], str] = {}
        for test in tests:
            other = by_key.setdefault(junit_key(test), test)
            if other != test:
                return other, test
        return None

    def check_usable(self) -> None:
        """Nothing is needed that could be missing."""


def _junit_cases(report: bytes, wanted: frozenset[tuple[str, str]]) -> dict[tuple[str, str], TestStatus]:
    """Status by class name and name. Nothing is kept of other tests, however many a report makes up."""
    cases: dict[tuple[str, str], TestStatus] = {}
    current: tuple[str, str] | None = None

    def opened(tag: str, attributes: dict[str, str]) -> None:
        nonlocal current
        if tag == "testcase":
            case = (attributes.get("classname", ""), attributes.get("name", ""))
            current = case if case in wanted else None
            if current is not None:
                cases.setdefault(current, "passed")
        elif current is not None and tag in _ELEMENTS:
            cases[current] = max(cases[current], _ELEMENTS[tag], key=SEVERITY.__getitem__)

    def closed(tag: str) -> None:
        nonlocal current
        if tag == "testcase":
            current = None

    def refuse(*_: object) -> None:
        raise ValueError("a test report has no document type")

    # pytest writes UTF-8. What the report itself declares could be any codec of Python's, or none.
    reader = expat.ParserCreate("utf-8")
    reader.StartElementHandler = opened
    reader.EndElementHandler = closed
    reader.StartDoctypeDeclHandler = refuse
    try:
        for start in range(0, len(report), CHUNK_BYTES):
            reader.Parse(report[start : start + CHUNK_BYTES], False)
            if start - reader.CurrentByteIndex > MAX_TAG_BYTES:
                raise ValueError("a tag of a test report is too long")
        reader.Parse(b"", True)
    except (expat.ExpatError, ValueError):
        return {}
    return cases


def dotted(path: str) -> str:
    """A file's part of pytest's class names. Two files can have the same: separators become dots, and a name may hold
    some of its own."""
    return re.sub(r"\.py$", "", PurePosixPath(path).as_posix().replace("/", "."))


def junit_key(test: str) -> tuple[str, str]:
    """Class name and name under which pytest reports a test (``_pytest.junitxml``: path separators become dots)."""
    address, bracket, parameters = test.partition("[")
    path, *names = address.split("::")
    name = names[-1] if names else ""
    return ".".join([dotted(path), *names[:-1]]), f"{name}{bracket}{parameters}"
