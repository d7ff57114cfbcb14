"""Every test of a pytest report, with its id, its status, its seconds and the words of its failure.

Invariant: a report is hostile input (the tested code runs in the process that writes it). What cannot be read gives no
test at all, and a test that is named twice has the worse of its two statuses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from lego_rl.tasks.reports.junit import dotted
from lego_rl.tasks.reports.status import TestStatus

MAX_CASES = 50_000
MAX_TEXT = 100_000
"""Characters kept of one failure."""

_SEVERITY: Mapping[TestStatus, int] = {"passed": 0, "skipped": 1, "error": 2, "failed": 3}
_ELEMENTS: Mapping[str, TestStatus] = {"failure": "failed", "error": "error", "skipped": "skipped"}


@dataclass(frozen=True)
class Case:
    """One test.

    Attributes:
        id: As pytest prints it, ``path::[Class::]name[parameters]``.
        path: Its file.
        status: How it ended.
        seconds: Wall-clock seconds of the call and its fixtures.
        text: Traceback of a failure, as pytest prints it.
    """

    id: str
    path: str
    status: TestStatus
    seconds: float
    text: str = ""


@dataclass(frozen=True)
class Results:
    """What a report says.

    Attributes:
        cases: Test id → the test.
        broken: Files that could not be collected → why.
    """

    cases: Mapping[str, Case]
    broken: Mapping[str, str] = field(default_factory=dict)

    def passed(self) -> frozenset[str]:
        """Ids of the tests that passed."""
        return frozenset(test for test, case in self.cases.items() if case.status == "passed")


def read_results(report: bytes, files: Iterable[str]) -> Results:
    """Read a report of tests in some files.

    Args:
        report: pytest's ``--junitxml``.
        files: Paths of Python files that tests can be in; a class name that belongs to none of them is passed by.
    """
    paths = _by_dotted(files)
    cases: dict[str, Case] = {}
    broken: dict[str, str] = {}
    for raw in _raw_cases(report):
        if not raw.classname and raw.status == "error" and raw.name in paths:
            broken[paths[raw.name]] = raw.text
            continue
        case = _case(raw, paths)
        if case is None:
            continue
        known = cases.get(case.id)
        if known is None or _SEVERITY[case.status] > _SEVERITY[known.status]:
            cases[case.id] = case
    return Results(cases, broken)


@dataclass
class _Raw:
    classname: str
    name: str
    seconds: float
    status: TestStatus = "passed"
    text: str = ""


def _by_dotted(files: Iterable[str]) -> dict[str, str]:
    """Class name of a file → the file; names that two files share are left out."""
    found: dict[str, list[str]] = {}
    for path in files:
        found.setdefault(dotted(path), []).append(path)
    return {name: paths[0] for name, paths in found.items() if len(paths) == 1}


def _case(raw: _Raw, paths: Mapping[str, str]) -> Case | None:
    parts = raw.classname.split(".")
    for length in range(len(parts), 0, -1):
        path = paths.get(".".join(parts[:length]))
        if path is not None:
            test = "::".join((path, *parts[length:], raw.name))
            return Case(test, path, raw.status, raw.seconds, raw.text)
    return None


def _raw_cases(report: bytes) -> list[_Raw]:
    cases: list[_Raw] = []
    inside: list[str] = []

    def opened(tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            if len(cases) >= MAX_CASES:
                raise ValueError("a report of too many tests")
            cases.append(_Raw(attributes.get("classname", ""), attributes.get("name", ""), _seconds(attributes)))
            inside.append(tag)
        elif inside and tag in _ELEMENTS:
            inside.append(tag)
            current = cases[-1]
            current.status = max(current.status, _ELEMENTS[tag], key=_SEVERITY.__getitem__)

    def closed(tag: str) -> None:
        if inside and inside[-1] == tag:
            inside.pop()

    def said(text: str) -> None:
        if len(inside) == 2 and inside[-1] != "skipped" and len(cases[-1].text) < MAX_TEXT:
            cases[-1].text += text

    def refuse(*_: object) -> None:
        raise ValueError("a test report has no document type")

    reader = expat.ParserCreate("utf-8")
    reader.buffer_text = True
    reader.StartElementHandler = opened
    reader.EndElementHandler = closed
    reader.CharacterDataHandler = said
    reader.StartDoctypeDeclHandler = refuse
    try:
        reader.Parse(report, True)
    except (expat.ExpatError, ValueError):
        return []
    return cases


def _seconds(attributes: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(attributes.get("time", "0")))
    except ValueError:
        return 0.0
