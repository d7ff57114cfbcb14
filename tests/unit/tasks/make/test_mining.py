"""Parts of a change: they can be made one without another, and the smallest that is enough is found."""

from collections.abc import Sequence

import pytest
from small_package import FIRST, SECOND

from lego_rl.tasks.make.mine.hunks import Hunk, apply_hunks, changed_tests, hunks_of
from lego_rl.tasks.make.mine.parts import MOST_RUNS, smallest
from lego_rl.tasks.make.tree import Step, Tree


def tree(files: dict[str, str]) -> Tree:
    return Tree({path: text.encode() for path, text in files.items()})


STEP = Step("1.0", "1.1", tree(FIRST), tree(SECOND))


def test_a_change_of_code_falls_into_its_parts() -> None:
    words, fix = hunks_of(STEP)
    assert (words.path, words.start) == ("small/core.py", 0)
    assert "about words" in words.lines[0]
    assert "hyphen" not in "".join(words.lines)
    assert fix.size == 3


def test_all_parts_make_the_later_file_and_one_part_makes_its_own() -> None:
    before = STEP.before.files
    words, fix = hunks_of(STEP)
    assert apply_hunks(before, [fix, words]) == {"small/core.py": STEP.after.files["small/core.py"]}
    only = apply_hunks(before, [fix])["small/core.py"].decode()
    assert "about words" not in only
    assert 'sep + "-"' in only
    assert apply_hunks(before, []) == {}


def test_tests_are_no_code_and_documents_are_neither() -> None:
    assert set(changed_tests(STEP)) == {"tests/test_core.py"}
    assert {hunk.path for hunk in hunks_of(STEP)} == {"small/core.py"}


def test_a_new_file_is_one_part() -> None:
    step = Step("1", "2", tree(FIRST), tree({**FIRST, "small/new.py": "a = 1\nb = 2\n"}))
    (hunk,) = hunks_of(step)
    assert apply_hunks(step.before.files, [hunk]) == {"small/new.py": b"a = 1\nb = 2\n"}


def test_data_of_a_package_belongs_to_its_change_and_other_files_do_not() -> None:
    before = {**FIRST, "small/_version.py": "v = 1\n", "small/words/list.txt": "a\n", "notes.txt": "a\n"}
    after = {**before, "small/_version.py": "v = 2\n", "small/words/list.txt": "b\n", "notes.txt": "b\n"}
    step = Step("1", "2", tree(before), tree(after))
    assert {hunk.path for hunk in hunks_of(step)} == {"small/_version.py", "small/words/list.txt"}
    assert "small/_version.py" not in step.after.modules


def test_files_with_odd_line_ends_come_back_as_they_are() -> None:
    before, after = "a\r\nb\fc\u2028d\r\ne", "a\r\nB\fc\u2028d\r\ne"
    step = Step("1", "2", tree({"m.py": before}), tree({"m.py": after}))
    assert apply_hunks(step.before.files, hunks_of(step))["m.py"].decode() == after


HUNKS = [Hunk("m.py", place, place + 1, (f"{place}\n",)) for place in range(16)]


@pytest.mark.parametrize("needed", [{0}, {15}, {3, 12}, {0, 7, 8, 15}, set(range(16))])
async def test_the_smallest_part_is_found(needed: set[int]) -> None:
    runs = 0

    async def passes(some: Sequence[Hunk]) -> bool:
        nonlocal runs
        runs += 1
        return needed <= {hunk.start for hunk in some}

    assert {hunk.start for hunk in await smallest(HUNKS, passes)} == needed
    assert runs <= MOST_RUNS


async def test_a_search_is_bounded() -> None:
    many = [Hunk("m.py", place, place + 1, ()) for place in range(400)]
    runs = 0

    async def passes(some: Sequence[Hunk]) -> bool:
        nonlocal runs
        runs += 1
        return len({hunk.start for hunk in some} & set(range(0, 400, 2))) == 200

    kept = await smallest(many, passes)
    assert runs == MOST_RUNS
    assert {hunk.start for hunk in kept} >= set(range(0, 400, 2))
