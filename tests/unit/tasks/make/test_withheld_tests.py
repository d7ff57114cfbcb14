"""What an agent sees of a test file: everything but the tests that decide, and no trace of them."""

import pytest
from small_package import TESTS

from lego_rl.tasks.make.withhold import without_tests

PATH = "tests/test_core.py"


def left(*tests: str, text: str = TESTS) -> str | None:
    seen = without_tests(PATH, text.encode(), [f"{PATH}::{test}" for test in tests])
    return None if seen is None else seen.decode()


def test_a_function_goes_with_its_decorators_and_comments() -> None:
    seen = left("test_chunks[2-3]")
    assert seen is not None
    assert "def test_chunks(" not in seen
    assert "parametrize" not in seen
    assert "test_chunks_keep_order" in seen

    seen = left("TestClamp::test_above")
    assert seen is not None
    assert "test_above" not in seen
    assert "too large" not in seen
    assert "test_wrong_bounds" in seen


def test_what_stays_is_as_it_was() -> None:
    seen = left("TestClamp::test_above", "test_initials")
    assert seen is not None
    lines = TESTS.splitlines()
    assert [line for line in seen.splitlines() if line not in lines] == []


def test_a_class_without_tests_goes_too() -> None:
    names = ("inside", "below", "above", "wrong_bounds")
    seen = left(*(f"TestClamp::test_{name}" for name in names))
    assert seen is not None
    assert "TestClamp" not in seen
    compile(seen, PATH, "exec")


def test_a_later_function_of_the_same_name_takes_the_earlier_one_along() -> None:
    twice = f"{TESTS}\n\ndef test_initials():\n    assert initials(['b']) == 'B.'\n"
    seen = left("test_initials", text=twice)
    assert seen is not None
    assert "test_initials" not in seen


@pytest.mark.parametrize("test", ["TestOther::test_inside", "test_made_by_code"])
def test_a_file_is_withheld_whole_where_its_test_is_not_written_in_it(test: str) -> None:
    assert left(test) is None


def test_a_file_is_withheld_whole_where_nothing_is_left() -> None:
    assert left("test_a", text="import small\n\n\ndef test_a():\n    assert small\n") is None
