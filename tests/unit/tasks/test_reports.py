"""Reports are hostile input: what they say is read, what they hide is missing, and nothing raises."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import TaskError
from lego_rl.tasks.reports import Report, TestStatus, parser_named
from lego_rl.tasks.reports.junit import MAX_TAG_BYTES


def parse_pytest_junit(report: bytes, wanted: Iterable[str]) -> dict[str, TestStatus]:
    return parser_named("pytest-junit").statuses(Report(report), wanted)


REPORT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="6">
<testcase classname="tests.test_a" name="test_ok" time="0.1" />
<testcase classname="tests.test_a.TestX" name="test_in_class"><failure message="no">trace</failure></testcase>
<testcase classname="tests.sub.test_b" name="test_p[1-a::b/c.py]" />
<testcase classname="tests.test_a" name="test_skipped"><skipped type="pytest.skip" message="x"/></testcase>
<testcase classname="tests.test_a" name="test_teardown" />
<testcase classname="tests.test_a" name="test_teardown"><error message="teardown"/></testcase>
</testsuite></testsuites>"""


def test_statuses_by_test_id() -> None:
    wanted = {
        "tests/test_a.py::test_ok": "passed",
        "tests/test_a.py::TestX::test_in_class": "failed",
        "tests/sub/test_b.py::test_p[1-a::b/c.py]": "passed",
        "tests/test_a.py::test_skipped": "skipped",
        "tests/test_a.py::test_teardown": "error",
        "tests/test_a.py::test_not_there": "missing",
        "tests/test_a.py": "missing",
    }
    assert parse_pytest_junit(REPORT, wanted) == wanted


OF_PYTEST = """
import unittest
import pytest

@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.xfail
def test_unexpected(): pass
@pytest.mark.xfail(strict=True)
def test_unexpected_strict(): pass
@pytest.mark.xfail(raises=KeyError)
def test_other_error(): raise ValueError
def test_skips(): pytest.skip("no")
def test_gives_up(): pytest.xfail("no")
def test_fails(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_setup(broken): pass
@pytest.fixture
def breaks(): yield; raise ValueError
def test_teardown(breaks): pass
class TestIt(unittest.TestCase):
    @unittest.expectedFailure
    def test_expected(self): assert False
    @unittest.expectedFailure
    def test_unexpected(self): pass
"""
STATUS = {
    "test_expected": "skipped", "test_unexpected": "passed", "test_unexpected_strict": "failed",
    "test_other_error": "failed", "test_skips": "skipped", "test_gives_up": "skipped", "test_fails": "failed",
    "test_setup": "error", "test_teardown": "error", "TestIt::test_expected": "skipped",
    "TestIt::test_unexpected": "failed", "test_not_there": "missing",
}  # fmt: skip


def test_what_pytest_itself_says(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(OF_PYTEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir=.",
        "--junitxml=report.xml",
        "test_all.py",
    ]
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    wanted = {f"test_all.py::{name}": status for name, status in STATUS.items()}
    assert parse_pytest_junit((tmp_path / "report.xml").read_bytes(), wanted) == wanted


def test_of_several_entries_for_a_test_that_was_repeated_the_worst_counts() -> None:
    entries = '<testcase classname="a" name="t"><failure/></testcase><testcase classname="a" name="t"/>'
    assert parse_pytest_junit(f"<s>{entries}</s>".encode(), ["a.py::t"]) == {"a.py::t": "failed"}


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"not xml",
        REPORT[:-20],
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + REPORT.partition(b"?>")[2],
        '<!DOCTYPE x [<!ENTITY a "a">]><testsuites/>'.encode("utf-16"),
    ],
)
def test_a_damaged_report_names_nothing(report: bytes) -> None:
    assert parse_pytest_junit(report, ["tests/test_a.py::test_ok"]) == {"tests/test_a.py::test_ok": "missing"}


@given(st.binary(max_size=2000))
def test_no_report_raises(report: bytes) -> None:
    assert parse_pytest_junit(report, ["a.py::t"])["a.py::t"] == "missing"


@pytest.mark.parametrize("encoding", ["no-such-codec", "hex", "zlib", "utf-7", "utf-16", "undefined", "x" * 3000])
def test_a_declared_encoding_cannot_make_the_parser_raise(encoding: str) -> None:
    report = f'<?xml version="1.0" encoding="{encoding}"?><s><testcase classname="a" name="t"/></s>'.encode()
    assert parse_pytest_junit(report, ["a.py::t"])["a.py::t"] in ("passed", "missing")


LONG = {
    "message": '<failure message="{}"/>', "text": "<failure>{}</failure>", "name": "<{}/>", "comment": "<!--{}-->",
    "attributes": "<failure {}/>",
}  # fmt: skip


@pytest.mark.parametrize("where", LONG)
def test_a_tag_is_read_up_to_a_size(where: str) -> None:
    def status(size: int) -> str:
        filling = "".join(f'a{number}="" ' for number in range(size // 11)) if where == "attributes" else "x" * size
        report = f'<s><testcase classname="a" name="t">{LONG[where].format(filling)}</testcase></s>'
        return parse_pytest_junit(report.encode(), ["a.py::t"])["a.py::t"]

    assert status(1 << 20) == ("passed" if where in ("name", "comment") else "failed")
    assert status(MAX_TAG_BYTES * 2) == ("failed" if where == "text" else "missing")


def test_invented_tests_take_no_memory() -> None:
    report = b"<s>" + b"".join(b'<testcase name="t%d"/>' % number for number in range(100_000)) + b"</s>"
    tracemalloc.start()
    try:
        assert parse_pytest_junit(report, ["a.py::t"]) == {"a.py::t": "missing"}
        assert tracemalloc.get_traced_memory()[1] < 2 * len(report)  # expat holds the text once
    finally:
        tracemalloc.stop()


@given(st.permutations(["", "<failure/>", "<skipped/>", "<error/>"]))
def test_the_worst_entry_counts(entries: list[str]) -> None:
    cases = "".join(f'<testcase classname="a" name="t">{entry}</testcase>' for entry in entries)
    assert parse_pytest_junit(f"<s>{cases}</s>".encode(), ["a.py::t"]) == {"a.py::t": "failed"}


def test_unknown_parser() -> None:
    with pytest.raises(TaskError, match="pytest-junit"):
        parser_named("junit5")


def test_two_tests_that_a_report_names_alike() -> None:
    pair = ("tests/test_a.py::test_x", "tests.test_a.py::test_x")
    ambiguous = parser_named("pytest-junit").ambiguous
    assert ambiguous(["b.py::test_x", *pair]) == pair
    assert ambiguous(["a/b.py::C::t[1]", "a/b/C.py::t[1]"]) is not None
    assert ambiguous(["a.py::t", "a.py::t", "a.py::t[1]", "a.py::C::t", "b.py::t"]) is None
