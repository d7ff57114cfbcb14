"""The held-out set is spread over the families."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lego_rl.evaluate.heldout import Score, score, spread_over_families
from lego_rl.tasks.task import Task, TestSpec

SPEC = TestSpec(("t::a",), (), "true", "pytest-junit", ())


def task(family: str, index: int) -> Task:
    return Task(f"{family}-{index:03d}", Path("x"), "", family, "/app", SPEC, 60.0, 512)


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8), count=st.integers(0, 80))
def test_families_differ_by_at_most_one_unless_one_is_exhausted(sizes: list[int], count: int) -> None:
    tasks = [task(f"f{family}", index) for family, size in enumerate(sizes) for index in range(size)]
    chosen = spread_over_families(tasks, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(tasks))
    got = Counter(t.family for t in chosen)
    most = max(got.values(), default=0)
    for family, size in enumerate(sizes):
        assert got[f"f{family}"] >= min(size, most - 1)


def test_the_choice_does_not_depend_on_the_order_given() -> None:
    tasks = [task(f"f{i % 3}", i) for i in range(12)]
    assert spread_over_families(tasks, 7) == spread_over_families(tasks[::-1], 7)


def test_a_score_leaves_infrastructure_faults_out() -> None:
    assert score([1, 0, None, 1]) == Score(solved=2, trials=3)
    assert score([None]).rate == 0.0
