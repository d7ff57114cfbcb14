"""Laws that every generated task keeps."""

import ast
import builtins
import copy
import keyword
import re
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.tasks import hidden_tests
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.families import FAMILIES, TRAINED, UNSEEN
from lego_rl.tasks.generate import families_of, generate
from lego_rl.tasks.generated_check import run_tests
from lego_rl.tasks.names import SPLITS, Split, split_of_function
from lego_rl.tasks.words import NOUNS, VERBS

DEFINED = re.compile(r"^def (\w+)\(", re.MULTILINE)


@st.composite
def tasks(draw: st.DrawFn) -> BugTask:
    split: Split = draw(st.sampled_from(SPLITS))
    family = draw(st.sampled_from([family.name for family in families_of(split)]))
    return generate(draw(st.integers(0, 10**6)), family, draw(st.integers(0, 10**4)), split)


@settings(max_examples=80)
@given(task=tasks())
def test_the_bug_is_one_line_that_the_hidden_tests_tell_from_its_fix(task: BugTask) -> None:
    before, after = task.files[task.bug.path].split("\n"), task.fixed_files[task.bug.path].split("\n")
    assert [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new] == [
        task.bug.line
    ]
    assert (before[task.bug.line - 1], after[task.bug.line - 1]) == (task.bug.before, task.bug.after)
    wrong, right = run_tests(task.files, task.tests), run_tests(task.fixed_files, task.tests)
    assert {test for test, passed in wrong.items() if not passed} == set(task.fail_to_pass)
    assert {test for test, passed in wrong.items() if passed} == set(task.pass_to_pass)
    assert set(right.values()) == {True}
    assert len(task.fail_to_pass) >= 1
    assert len(task.pass_to_pass) >= 2


@settings(max_examples=80)
@given(task=tasks())
def test_the_repository_is_small_and_the_bug_can_be_found_and_replaced_by_its_text(task: BugTask) -> None:
    modules = {path: text for path, text in task.files.items() if not path.endswith("__init__.py")}
    assert 3 <= len(modules) <= 4
    for text in modules.values():
        assert 10 <= text.count("\n") <= 25
        assert max(map(len, text.split("\n"))) <= 80
        ast.parse(text)
    hits = [path for path, text in task.files.items() if f"def {task.bug.function}" in text]
    assert hits == [task.bug.path]
    assert task.files[task.bug.path].count(task.bug.before.strip()) == 1
    assert not any(path.startswith("tests/") or "test" in text for path, text in task.files.items())


@settings(max_examples=80)
@given(task=tasks())
def test_the_issue_names_the_function_first_and_neither_the_file_nor_the_line(task: BugTask) -> None:
    assert 2 <= task.instruction.count(".") + task.instruction.count("?") <= 4
    named = re.findall(r"`(\w+)`", task.instruction)
    assert named[0] == task.bug.function
    assert ".py" not in task.instruction
    assert task.bug.path.split("/")[-1].removesuffix(".py") not in named
    assert task.bug.after.strip() not in task.instruction


@settings(max_examples=40)
@given(task=tasks())
def test_function_names_belong_to_the_split_and_occur_once(task: BugTask) -> None:
    functions = [name for text in task.files.values() for name in DEFINED.findall(text)]
    assert len(functions) == len(set(functions))
    assert {split_of_function(name) for name in functions} == {task.split}


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), index=st.integers(0, 10**4))
def test_generation_is_a_function_of_its_arguments(seed: int, index: int) -> None:
    assert generate(seed, "swapped", index) == generate(seed, "swapped", index)
    assert generate(seed, "swapped", index).files != generate(seed, "swapped", index + 1).files
    assert generate(seed, "swapped", index).files != generate(seed + 1, "swapped", index).files


def test_the_generator_gives_today_what_it_gave_before() -> None:
    """A published figure is about these very tasks: whoever changes them starts a new pool and changes this line."""
    task = generate(0, "arithmetic", 0, "heldout")
    assert (task.bug.path, task.bug.after) == ("price/scale.py", "    return field - rock")


def test_eight_families_are_trained_and_two_are_only_evaluated() -> None:
    assert (len(TRAINED), len(UNSEEN), len(FAMILIES)) == (8, 2, 10)
    assert {split for split in SPLITS if set(families_of(split)) & set(UNSEEN)} == {"unseen"}


@pytest.mark.parametrize(
    ("family", "split"), [("boolean", "train"), ("boolean", "warm"), ("key", "unseen"), ("x", "train")]
)
def test_a_family_of_another_split_is_refused_by_name(family: str, split: Split) -> None:
    with pytest.raises(ConfigError, match=f"split {split} has no bug family '{family}'"):
        generate(0, family, 0, split)


def test_words_can_name_anything() -> None:
    words = (*VERBS, *NOUNS)
    assert len(words) == len(set(words)) == 250
    taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *sys.stdlib_module_names}
    assert not taken & set(words)
    assert all(re.fullmatch("[a-z]{2,6}", word) for word in words)


def test_no_object_of_the_repositorys_own_passes_for_a_result() -> None:
    class Liar:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    class Number(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    scope: dict[str, Any] = {}
    exec(hidden_tests._EXACTLY, scope)
    exactly = scope["_is_exactly"]
    results: list[Any] = [True, 3, "a", [1, 2], ["a"], {"a": 1, "b": 2}, []]
    for wanted in results:
        assert exactly(copy.deepcopy(wanted), wanted)
        for found in (Liar(), Number(3), [Liar()], [Number(1), Number(2)], {"a": Liar(), "b": 2}, None):
            assert not exactly(found, wanted)
    assert not exactly(1, True)
    assert exactly({"b": 2, "a": 1}, {"a": 1, "b": 2})
