"""The held-out set is spread over the families."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import (
    EvaluateSettings,
    Score,
    evaluated_tasks,
    rate_difference,
    score,
    spread_over_families,
)
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import Outcome, Reward
from lego_rl.tasks.task import Task, TestSpec

SPEC = TestSpec(("t::a",), (), "true", "pytest-junit", ())


def task(family: str, index: int) -> Task:
    return Task(f"{family}-{index:03d}", Path("x"), "", family, "/app", SPEC, 60.0, 512)


@given(data=st.data(), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_families_differ_by_at_most_one_unless_one_is_exhausted(data: st.DataObject, sizes: list[int]) -> None:
    tasks = [task(f"f{family}", index) for family, size in enumerate(sizes) for index in range(size)]
    count = data.draw(st.integers(0, len(tasks)))
    chosen = spread_over_families(tasks, count)
    assert len(chosen) == len(set(chosen)) == count
    got = Counter(t.family for t in chosen)
    most = max(got.values(), default=0)
    for family, size in enumerate(sizes):
        assert got[f"f{family}"] >= min(size, most - 1)


def test_the_choice_does_not_depend_on_the_order_given() -> None:
    tasks = [task(f"f{i % 3}", i) for i in range(12)]
    assert spread_over_families(tasks, 7) == spread_over_families(tasks[::-1], 7)


def outcomes(*rewards: Reward | None) -> list[Outcome]:
    """A trial each; without a reward it is an infrastructure fault."""
    return [Outcome(each, Ended.SANDBOX_START if each is None else Ended.FINISHED, None, "") for each in rewards]


def test_a_score_leaves_infrastructure_faults_out() -> None:
    assert score(outcomes(1, 0, None, 1)) == Score(solved=2, trials=3)
    assert score(outcomes(None, 1, 0)).rate == 0.5


def test_nothing_of_nothing_is_no_rate_and_no_rise() -> None:
    assert score(outcomes(None)).rate is None
    assert rate_difference(Score(), Score(0, 2)) is rate_difference(Score(1, 2), Score()) is None
    assert rate_difference(Score(0, 2), Score(1, 2)) == 0.5


@pytest.mark.parametrize("count", [3, 4])
def test_more_tasks_than_a_split_has_are_refused_with_how_many_there_are(count: int) -> None:
    splits = {"heldout": [task("f", index) for index in range(3)], "unseen": [task("g", 0)]}
    settings = EvaluateSettings(splits={"unseen": 1, "heldout": count})
    if count == 3:
        assert evaluated_tasks(splits, settings) == {"unseen": splits["unseen"], "heldout": splits["heldout"]}
    else:
        with pytest.raises(ConfigError, match="asks for 4 tasks of split 'heldout', which has 3"):
            evaluated_tasks(splits, settings)
