"""What a runner printed, as a report: pytest's own lines, swebench's parsers, ids cut in the middle, contradictions."""

import importlib.util
import json
import subprocess
import sys
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import TaskError
from lego_rl.tasks.reports import Report, TestStatus, listing_parser, parser_named
from lego_rl.tasks.reports.swebench import NAMES, SwebenchParser

LOG = """\
+ : '>>>>> Start Test Output'
tests/test_a.py::test_one PASSED                                         [ 20%]
=========================== short test summary info ============================
\x1b[32mPASSED\x1b[0m tests/test_a.py::\x1b[1mtest_one\x1b[0m
PASSED tests/test_a.py::test_words[a - b c]
SKIPPED [1] tests/test_a.py:7: not here
XFAIL tests/test_a.py::test_expected - a reason
XPASS tests/test_a.py::test_surprise
FAILED tests/test_a.py::test_two[x - y] - AssertionError: 1 - 2
ERROR tests/test_b.py - ImportError: no
PASSED tests/test_a.py::test_torn
ERROR tests/test_a.py::test_torn - teardown
+ : '>>>>> End Test Output'
PASSED tests/test_a.py::test_after_the_end
"""
FOUND: dict[str, TestStatus] = {
    "tests/test_a.py::test_one": "passed",
    "tests/test_a.py::test_words[a - b c]": "passed",
    "tests/test_a.py::test_expected": "passed",
    "tests/test_a.py::test_surprise": "failed",
    "tests/test_a.py::test_two[x - y]": "failed",
    "tests/test_b.py": "error",
    "tests/test_a.py::test_torn": "error",
}


def read(text: str, *wanted: str, parser: str = "pytest-log", status: int | None = 0) -> list[TestStatus]:
    return list(parser_named(parser).statuses(Report(text.encode(), status), wanted).values())


def test_pytest_lines() -> None:
    assert listing_parser("pytest-log").found(Report(LOG.encode(), 1)) == FOUND


def test_verbose_lines_of_any_version() -> None:
    log = "a.py::t PASSED\na.py::u SKIPPED (no reason) [ 50%]\na.py::v[1 2] FAILED   [100%]\na.py::w RERUN"
    assert read(log, "a.py::t", "a.py::u", "a.py::v[1 2]", "a.py::w") == ["passed", "skipped", "failed", "missing"]


def test_a_test_that_prints_its_own_pass_after_it_failed_has_failed() -> None:
    log = "FAILED a.py::t - no\nPASSED a.py::t\n"
    assert read(log, "a.py::t", status=1) == ["failed"]
    assert read(log, "a.py::t", status=1, parser="swebench:parse_log_pytest") == ["failed"]


@pytest.mark.parametrize("parser", ["pytest-log", "swebench:parse_log_pytest_v2"])
def test_a_failed_command_that_names_no_failure_gives_no_pass(parser: str) -> None:
    assert read("PASSED a.py::t\n", "a.py::t", parser=parser, status=0) == ["passed"]
    assert read("PASSED a.py::t\n", "a.py::t", parser=parser, status=None) == ["passed"]
    assert read("PASSED a.py::t\n", "a.py::t", parser=parser, status=2) == ["missing"]
    assert read("PASSED a.py::t\nFAILED a.py::u\n", "a.py::t", parser=parser, status=1) == ["passed"]


def test_where_a_file_could_not_be_collected_nothing_that_is_printed_of_its_tests_counts() -> None:
    log = "PASSED a.py::t\nPASSED b.py::t\nERROR a.py - SyntaxError\n"
    for parser in ("pytest-log", "swebench:parse_log_pytest", "swebench:parse_log_sphinx"):
        assert read(log, "a.py::t", "b.py::t", status=1, parser=parser) == ["error", "passed"]


def test_pytest_that_was_interrupted_ran_nothing() -> None:
    log = "PASSED a.py::t\nFAILED b.py::t\n"
    for parser in ("pytest-log", "swebench:parse_log_flask"):
        for status in (2, 3, 4, 5, 124, 137, -9):
            assert read(log, "a.py::t", status=status, parser=parser) == ["missing"]
    assert read("PASS: a\nFAIL: b\n", "a", status=2, parser="swebench:parse_log_jq") == ["passed"]


def test_ids_cut_in_the_middle_of_a_parameter() -> None:
    log = "PASSED a.py::t[log(photon 1)]\nPASSED a.py::t[log(photon 2)]\nPASSED a.py::u[x 1]\nFAILED a.py::u[x 2]\n"
    assert read(log, "a.py::t[log(photon", status=1) == ["passed"]
    assert read(log, "a.py::u[x", status=1) == ["missing"], "they do not agree"
    assert read(log, "a.py::t", "a.py::t[log(photon 1", "a.py::z[", status=1) == ["missing", "passed", "missing"]
    assert read("FAILED a.py::u[x 2]\nSKIPPED a.py::u[x 3]", "a.py::u[x", status=1) == ["failed"]


def test_an_id_that_is_whole_is_never_matched_by_its_beginning() -> None:
    assert read("PASSED a.py::test_ab\n", "a.py::test_a") == ["missing"]
    assert read("PASSED a.py::t[a][b]\n", "a.py::t[a]") == ["missing"]


@pytest.mark.parametrize(
    ("name", "log", "test", "status"),
    [
        ("parse_log_django", "test_a (app.tests.T) ... ok\n", "test_a (app.tests.T)", "passed"),
        ("parse_log_django", "test_a (app.tests.T)\nIt does. ... FAIL\n", "It does.", "failed"),
        ("parse_log_sympy", "test_a ok\ntest_b F\n", "test_b", "failed"),
        ("parse_log_seaborn", "a.py::t PASSED [ 50%]\n", "a.py::t", "passed"),
        ("parse_log_matplotlib", "PASSED a.py::t[MouseButton.LEFT]\n", "a.py::t[1]", "passed"),
        ("parse_log_requests", "PASSED a.py::t[/tmp/x/y]\n", "a.py::t[/y]", "passed"),
        ("parse_log_gotest", "--- PASS: TestA (0.00s)\n", "TestA", "passed"),
        ("parse_log_jq", "PASS: tst_h_files\n", "tst_h_files", "passed"),
    ],
)
def test_parsers_of_swebench(name: str, log: str, test: str, status: TestStatus) -> None:
    expected = 1 if status == "failed" else 0
    assert read(log, test, parser=f"swebench:{name}", status=expected) == [status]


def test_the_names_are_those_of_the_package_but_for_parsers_that_ask_for_the_row() -> None:
    program = "import json, swebench.harness.log_parsers as p; print(json.dumps(list(p.PARSER_REGISTRY)))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    asking = {"parse_log_next", "parse_log_lighthouse", "parse_log_immutable_js"}
    assert set(json.loads(done.stdout)) - asking == NAMES


def test_a_log_that_takes_a_parser_too_long_names_nothing_and_holds_nobody_up() -> None:
    hostile = "_" * 400_000 + " x.py:t" + "\n"
    started = time.monotonic()
    found = SwebenchParser("parse_log_sympy", seconds=1.5).statuses(Report(hostile.encode(), 0), ["t"])
    assert found == {"t": "missing"}
    assert time.monotonic() - started < 30


def test_a_hostile_summary_line_takes_no_square_of_its_length() -> None:
    line = "FAILED a.py::t[" + " - " * 1_000_000
    started = time.monotonic()
    read(line, "a.py::t", status=1)
    assert time.monotonic() - started < 10


def test_invented_tests_take_no_memory() -> None:
    content = b"".join(b"PASSED a.py::t%d\n" % number for number in range(200_000))
    for parser in ("pytest-log", "swebench:parse_log_pytest"):
        tracemalloc.start()
        try:
            assert parser_named(parser).statuses(Report(content, 0), ["a.py::t"]) == {"a.py::t": "missing"}
            assert tracemalloc.get_traced_memory()[1] < 6 * len(content)  # the text and its copies
        finally:
            tracemalloc.stop()


def test_a_failure_that_nobody_asks_for_is_no_contradiction() -> None:
    for parser in ("pytest-log", "swebench:parse_log_pytest"):
        assert read("PASSED a.py::t\nFAILED b.py::u\n", "a.py::t", status=1, parser=parser) == ["passed"]


@given(st.binary(max_size=2000), st.integers(-9, 255) | st.none())
def test_no_log_raises(content: bytes, status: int | None) -> None:
    assert parser_named("pytest-log").statuses(Report(content, status), ["a.py::t"]) == {"a.py::t": "missing"}


def test_without_the_package_a_parser_of_it_is_refused_by_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    parser = parser_named("swebench:parse_log_django")
    with pytest.raises(TaskError, match=r"pip install 'lego-rl\[swebench\]'"):
        parser.check_usable()
    with pytest.raises(TaskError, match=r"pip install 'lego-rl\[swebench\]'"):
        parser.statuses(Report(b"x", 0), ["t"])


def test_a_parser_that_finds_only_what_it_is_asked_for_lists_nothing() -> None:
    with pytest.raises(TaskError, match="use pytest-log"):
        listing_parser("pytest-junit")


def test_ids_as_r2e_gym_has_them() -> None:
    log = "PASSED r2e_tests/t1.py::T::a[x - y]\nPASSED r2e_tests/t1.py::b\nFAILED r2e_tests/t2.py::b - no\nPASSED c\n"
    assert listing_parser("r2e-log").found(Report(log.encode(), 1)) == {"T.a[x": "passed", "b": "failed"}


def test_names_that_hold_times() -> None:
    log = "PASS: one (0.12 s)\nPASS: two in 3 msec\nPASS: three [4 ms]\nFAIL: three [5 ms]\n"
    found = read(log, "one", "two", "three", parser="swebench-untimed:parse_log_jq", status=1)
    assert found == ["passed", "passed", "failed"]


def test_unknown_parsers() -> None:
    for name in ("swebench:parse_log_next", "swebench:", "swebench:os.system", "PYTEST-LOG"):
        with pytest.raises(TaskError, match="use one of pytest-junit, pytest-log, r2e-log or swebench:NAME"):
            parser_named(name)
