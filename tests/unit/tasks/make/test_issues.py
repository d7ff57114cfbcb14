"""Issues tell what failing tests show, and nothing of where the bug is or how it is mended."""

import pytest
from small_package import FIRST, HYPHENS, SECOND

from lego_rl.tasks.make.evidence import Evidence, evidence_of
from lego_rl.tasks.make.issue import issue_text, ordered, shows_fix
from lego_rl.tasks.make.mine.changelog import entries_for, new_entries
from lego_rl.tasks.make.tree import Step, Tree
from lego_rl.tasks.make.writing import diff_of


def tree(files: dict[str, str]) -> Tree:
    return Tree({path: text.encode() for path, text in files.items()})


SMALL = tree(FIRST)
CLASSES = """\
import unittest
import small.core as core


class Base:
    Tool = None

    def make(self, **kw):
        return self.Tool(**kw)

    def test_it(self, size=3):
        tool = self.make(size=size)
        self.assertEqual(len(tool), 1)
        tool.turn(LIMIT)
        self.assertEqual(tool.parts, [1, 2])


LIMIT = 7


class ToolTest(Base, unittest.TestCase):
    Tool = core.Tool
"""


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if words in line)


def failing(path: str, text: str, words: str, said: str, values: str = "") -> str:
    line = line_of(text, words)
    return f"{path}:{line}: in test_it\n    {words}\n    ^^^^\n{said}\n{values}"


def test_an_assertion_tells_what_was_called_expected_and_found() -> None:
    words = "assert clamp(11, 0, 10) == 10"
    text = failing(
        "tests/test_core.py",
        FIRST["tests/test_core.py"],
        words,
        "E   assert 11 == 10\nE    +  where 11 = clamp(11, 0, 10)",
    )
    found = evidence_of(SMALL, "tests/test_core.py::TestClamp::test_above", text)
    assert found is not None
    assert found.calls == f"from small.core import clamp\n{words}"
    assert (found.called, found.expected, found.raises) == ("clamp", "10", None)
    assert found.said == "assert 11 == 10\n +  where 11 = clamp(11, 0, 10)"
    assert not found.crashed


def test_parameters_are_told_with_their_values() -> None:
    values = "        found      = ['abcde']\n        pieces     = 3\n        size       = 2\n"
    text = failing(
        "tests/test_core.py", FIRST["tests/test_core.py"], "assert len(found) == pieces", "E   assert 1 == 3", values
    )
    found = evidence_of(SMALL, "tests/test_core.py::test_chunks[2-3]", text)
    assert found is not None
    assert found.values == {"pieces": "3", "size": "2"}
    assert 'found = chunks(list("abcde"), size)' in found.calls


def test_an_exception_that_is_expected_is_told() -> None:
    text = failing(
        "tests/test_core.py",
        FIRST["tests/test_core.py"],
        "with pytest.raises(ValueError):",
        "E   Failed: DID NOT RAISE ValueError",
    )
    found = evidence_of(SMALL, "tests/test_core.py::TestClamp::test_wrong_bounds", text)
    assert found is not None
    assert (found.raises, found.crashed) == ("ValueError", False)
    assert "clamp(5, 10, 0)" in found.calls


def test_frames_of_the_product_are_not_told() -> None:
    text = (
        failing("tests/test_core.py", FIRST["tests/test_core.py"], "assert clamp(11, 0, 10) == 10", "").rstrip()
        + "\nsmall/core.py:12: in clamp\n    return heigh\n           ^^^^^"
        "\nE   NameError: name 'heigh' is not defined"
        "\n        secret     = 3\n"
    )
    found = evidence_of(SMALL, "tests/test_core.py::TestClamp::test_above", text)
    assert found is not None
    told = issue_text("small", "1.0", [found], seed="x")
    assert found.crashed
    assert "core.py" not in told
    assert "return heigh" not in told
    assert "secret" not in told
    assert "NameError: name 'heigh' is not defined" in told


def test_what_a_class_sets_is_told() -> None:
    home = Tree({"tests/test_tools.py": CLASSES.encode()})
    text = failing(
        "tests/test_tools.py", CLASSES, "self.assertEqual(tool.parts, [1, 2])", "E   AssertionError: [2] != [1, 2]"
    )
    found = evidence_of(home, "tests/test_tools.py::ToolTest::test_it", text)
    assert found is not None
    assert found.calls.splitlines() == [
        "import small.core as core",
        "LIMIT = 7",
        "self.Tool = core.Tool",
        "def make(self, **kw):",
        "    return self.Tool(**kw)",
        "size = 3",
        "tool = self.make(size=size)",
        "tool.turn(LIMIT)",
        "self.assertEqual(tool.parts, [1, 2])",
    ]
    assert found.expected == "[1, 2]"


@pytest.mark.parametrize(
    "text",
    ["", "E   assert 1", "small/core.py:3: in f\n    x\nE   assert 1", "tests/test_core.py:9999: in f\n    x\nE   a"],
)
def test_a_failure_without_a_statement_of_a_test_tells_nothing(text: str) -> None:
    assert evidence_of(SMALL, "tests/test_core.py::test_initials", text) is None


def evidence(test: str, **changed: object) -> Evidence:
    fields: dict[str, object] = {
        "test": test, "calls": f"{test}()", "called": "it", "expected": "1", "raises": None, "said": "assert 2 == 1",
        "values": {},
    }  # fmt: skip
    return Evidence(**{**fields, **changed})  # type: ignore[arg-type]


def test_the_most_telling_comes_first_and_each_function_once() -> None:
    vague = evidence("t::vague", expected=None, called="")
    found = ordered([vague, evidence("t::long[1]", calls="x" * 50), evidence("t::long[2]"), evidence("t::short")])
    assert [each.test for each in found] == ["t::short", "t::long[2]", "t::vague"]


def test_where_several_tests_decide_one_is_not_told() -> None:
    found = [evidence(f"t::test_{word}") for word in ("one", "two", "three")]
    for count, told in ((1, 1), (2, 1), (3, 2)):
        text = issue_text("small", "1.0", found[:count], seed="a")
        assert sum(f"{each.test}()" in text for each in found) == told


def test_the_same_seed_says_the_same() -> None:
    found = [evidence("t::one"), evidence("t::two")]
    assert issue_text("small", "1.0", found, seed="a") == issue_text("small", "1.0", found, seed="a")
    assert len({issue_text("small", "1.0", found, seed=str(seed)) for seed in range(20)}) > 3


def test_a_line_of_the_fix_is_found_in_a_text() -> None:
    patch = diff_of(SMALL.files, {"small/core.py": SECOND["small/core.py"].encode()})
    added = '    letters = [each.replace("-", sep + "-") for each in letters]'
    assert shows_fix(f"It should do\n{added}\n", patch) == added.strip()
    assert shows_fix(f"It should do `{added.strip()}` then.", patch) == added.strip()
    assert shows_fix("Initials of jean-luc are wrong.", patch) is None


def test_new_entries_of_a_change_log_belong_to_tests_by_their_words() -> None:
    other = "- Something else about clamp is faster.\n"
    after = {**SECOND, "CHANGES.md": SECOND["CHANGES.md"].replace("keep the hyphens.\n", f"keep the hyphens.\n{other}")}
    entries = new_entries(Step("1.0", "1.1", SMALL, tree(after)))
    assert entries == [
        "The initials of names with hyphens keep the hyphens.",
        "Something else about clamp is faster.",
    ]
    (name,) = [line.split("(")[0].removeprefix("def ") for line in HYPHENS.splitlines() if line.startswith("def")]
    assert entries_for(entries, [name, "initials"]) == entries[:1]
    assert entries_for(entries, ["chunks"]) == []
    told = issue_text("small", "1.0", [evidence("t::one")], entries[:1], seed="x")
    assert "- The initials of names with hyphens keep the hyphens." in told
