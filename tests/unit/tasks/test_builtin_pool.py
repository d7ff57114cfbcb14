"""The built-in pool as it is shipped: sizes, variety, and that no fixed edit gets far."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pytest

from lego_rl.tasks import build
from lego_rl.tasks.bugtask import BugTask
from lego_rl.tasks.build import pool_tasks
from lego_rl.tasks.generated_check import run_tests, validate
from lego_rl.tasks.pool import load_pool, pool_digest, pool_place
from lego_rl.tasks.task import Task


@pytest.fixture(scope="module")
def generated() -> list[BugTask]:
    return list(pool_tasks())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pool_place("builtin", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def pool(folder: Path) -> dict[str, tuple[Task, ...]]:
    return load_pool(folder)


def evaluated(tasks: Sequence[BugTask]) -> list[BugTask]:
    return [task for task in tasks if task.split in ("heldout", "unseen")]


def test_sizes_of_the_splits(pool: dict[str, tuple[Task, ...]]) -> None:
    sizes = {split: Counter(task.family for task in tasks) for split, tasks in pool.items()}
    assert {split: (len(by_family), set(by_family.values())) for split, by_family in sizes.items()} == {
        "train": (8, {40}),
        "heldout": (8, {8}),
        "unseen": (2, {8}),
    }


def test_every_task_of_the_pool_is_right_as_it_lies_on_disk(pool: dict[str, tuple[Task, ...]]) -> None:
    for tasks in pool.values():
        for task in tasks:
            validate(task)


def test_the_folder_is_named_by_everything_that_is_written(generated: list[BugTask], folder: Path) -> None:
    assert folder.name == f"builtin-{pool_digest(generated)}"
    assert pool_digest(generated[1:]) != pool_digest(generated)


@pytest.mark.parametrize("part", ["_DESCRIPTION", "_DOCKERFILE", "_PYTEST", "_TEST_SH", "_SOLVE_SH"])
def test_a_changed_template_of_the_generator_makes_another_folder(
    generated: list[BugTask], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pool_digest(generated[:1])
    monkeypatch.setattr(build, part, getattr(build, part) + " # changed")
    assert pool_digest(generated[:1]) != before


def test_gold_patches_are_distinct(generated: list[BugTask]) -> None:
    patches = {(task.bug.path, task.bug.before, task.bug.after) for task in generated}
    assert len(patches) >= 0.95 * len(generated)
    edits = {(task.bug.before.strip(), task.bug.after.strip()) for task in evaluated(generated)}
    assert len(edits) >= 0.95 * len(evaluated(generated))


def test_splits_share_no_file_and_function(generated: list[BugTask]) -> None:
    of_split: dict[str, set[str]] = {}
    for task in generated:
        of_split.setdefault(task.split, set()).add(task.bug.function)
    train, heldout, unseen = of_split["train"], of_split["heldout"], of_split["unseen"]
    assert not (train & heldout or train & unseen or heldout & unseen)


def test_places_and_names_vary(generated: list[BugTask]) -> None:
    tasks = evaluated(generated)
    for values in (
        [task.bug.path for task in tasks],
        [task.bug.function for task in tasks],
        [task.bug.path.split("/")[0] for task in tasks],
        [task.bug.before for task in tasks],
    ):
        assert max(Counter(values).values()) <= 0.05 * len(tasks)
    assert len({task.bug.line for task in tasks}) >= 8
    assert len({task.instruction for task in generated}) == len(generated)


def test_no_fixed_edit_solves_more_than_a_twentieth_of_the_held_out_tasks(generated: list[BugTask]) -> None:
    """Not even one that needs no name: what a gold patch alters is replaced wherever it stands in the repository."""
    tasks = evaluated(generated)
    edits = {altered(task.bug.before, task.bug.after) for task in tasks}
    assert len(edits) > 50
    solved = {edit: [task for task in tasks if solves(edit, task)] for edit in edits}
    assert sum(map(bool, solved.values())) > 30
    for splits in ({"heldout"}, {"heldout", "unseen"}):
        counts = {edit: sum(task.split in splits for task in done) for edit, done in solved.items()}
        best = max(counts, key=lambda edit: counts[edit])
        assert counts[best] <= 0.05 * sum(task.split in splits for task in tasks), best


def altered(before: str, after: str) -> tuple[str, str]:
    """The tokens that differ; a pure insertion takes the token before it along, as something must be found."""
    old, new = (re.findall(r"\w+|[^\w\s]+|\s+", line) for line in (before, after))
    start, end = common(old, new), common(old[::-1], new[::-1])
    end = min(end, len(old) - start, len(new) - start)
    start -= start == len(old) - end
    return "".join(old[start : len(old) - end]), "".join(new[start : len(new) - end])


def common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the common beginning."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))))


def solves(edit: tuple[str, str], task: BugTask) -> bool:
    """Whether a replacement in all files solves the task; one that leaves the bug's line as it is does not."""
    pattern = rf"(?<!\w){re.escape(edit[0])}(?!\w)" if edit[0].isalnum() else re.escape(edit[0])
    if re.sub(pattern, edit[1], task.bug.before) == task.bug.before:
        return False
    files = {path: re.sub(pattern, edit[1], text) for path, text in task.files.items()}
    try:
        return all(run_tests(files, task.tests).values())
    except (SyntaxError, NameError, TypeError, KeyError, ImportError, IndexError, ZeroDivisionError):
        return False
