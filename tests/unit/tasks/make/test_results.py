"""Reports of pytest are read as what anybody could have written."""

import pytest

from lego_rl.tasks.make import results
from lego_rl.tasks.make.results import read_results

FILES = ["tests/test_a.py", "tests/sub/test_b.py", "small/core.py"]


def report(*cases: str) -> bytes:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


def case(classname: str, name: str, inner: str = "") -> str:
    return f'<testcase classname="{classname}" name="{name}" time="0.5">{inner}</testcase>'


def test_ids_are_those_that_pytest_prints() -> None:
    found = read_results(
        report(
            case("tests.test_a", "test_x[a.b::c]"),
            case("tests.sub.test_b.TestOne.TestTwo", "test_y", "<failure>E   no\nwhy</failure>"),
            case("tests.test_a", "test_z", '<skipped message="s">text</skipped>'),
        ),
        FILES,
    )
    assert {test: each.status for test, each in found.cases.items()} == {
        "tests/test_a.py::test_x[a.b::c]": "passed",
        "tests/sub/test_b.py::TestOne::TestTwo::test_y": "failed",
        "tests/test_a.py::test_z": "skipped",
    }
    assert found.cases["tests/sub/test_b.py::TestOne::TestTwo::test_y"].text == "E   no\nwhy"
    assert found.passed() == {"tests/test_a.py::test_x[a.b::c]"}


def test_the_worse_of_two_entries_counts() -> None:
    failed = case("tests.test_a", "t", "<error>teardown</error>")
    for entries in ((case("tests.test_a", "t"), failed), (failed, case("tests.test_a", "t"))):
        assert read_results(report(*entries), FILES).cases["tests/test_a.py::t"].status == "error"


def test_a_file_that_cannot_be_collected_is_named() -> None:
    found = read_results(report(case("", "tests.test_a", "<error>E   ImportError: no</error>")), FILES)
    assert found.broken == {"tests/test_a.py": "E   ImportError: no"}
    assert not found.cases


def test_files_that_a_report_cannot_tell_apart_are_passed_by() -> None:
    assert not read_results(report(case("a.b", "t")), ["a/b.py", "a.b.py"]).cases


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"no xml",
        b"<testsuites><testcase",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuites><testcase classname="tests.test_a" name="t"/></testsuites>',
        report(case("elsewhere.test_a", "t")),
        report('<testcase classname="tests.test_a"/>')[:-20],
    ],
)
def test_what_is_no_report_names_no_test(hostile: bytes) -> None:
    assert not read_results(hostile, FILES).cases


def test_times_that_are_none_are_no_time() -> None:
    for time in ("nan", "-1", "x"):
        entry = f'<testcase classname="tests.test_a" name="t" time="{time}"/>'
        assert read_results(report(entry), FILES).cases["tests/test_a.py::t"].seconds == 0.0


def test_a_report_of_too_many_tests_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_CASES", 2)
    cases = [case("tests.test_a", f"t{place}") for place in range(3)]
    assert len(read_results(report(*cases[:2]), FILES).cases) == 2
    assert not read_results(report(*cases), FILES).cases
