"""What a form brings into an issue is taken out of its text, whichever kind of line it is."""

import pyarrow as pa
import pytest

from lego_rl.tasks.decontaminate.scaffold import without_form_lines, without_form_sentences

SAID = "dates before 1970 come out a day late"


@pytest.mark.parametrize(
    "line",
    [
        "<!-- please fill in\nall of this -->",
        "[e.g. iOS]",
        "- [x] this was not reported before",
        "### Steps to reproduce",
        "- OS: Linux",
        "**Operating system**: Windows 11 Pro, 64 bit",
        "- Python version: 3.8.2",
        "torch version = 2.4.1+cu121",
        "Platform : macOS-14.5-arm64-arm-64bit",
    ],
)
def test_lines_of_a_form_are_taken_out(line: str) -> None:
    (left,) = without_form_lines(pa.array([f"{SAID}\n{line}\n{SAID}"])).to_pylist()
    assert left.split() == f"{SAID} {SAID}".split()


@pytest.mark.parametrize(
    "line",
    [
        f"- Python version: {'3.8.2 and ' * 9}",  # more than a version
        "the version that I have: none",
        "os.path.join(a, b): fails",
    ],
)
def test_lines_that_say_something_stay(line: str) -> None:
    text = f"{SAID}\n{line}\n{SAID}"
    assert without_form_lines(pa.array([text])).to_pylist() == [text]


def test_sentences_of_a_form_are_taken_out_of_the_middle_of_a_line() -> None:
    words = f"{SAID} i have searched the existing issues {SAID}"
    (left,) = without_form_sentences(pa.array([words])).to_pylist()
    assert left.split() == f"{SAID} {SAID}".split()
