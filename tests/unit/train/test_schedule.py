"""The order of training tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.train.schedule import tasks_of_step


@given(count=st.integers(1, 40), seed=st.integers(0, 1000), data=st.data())
def test_every_task_is_seen_once_before_any_is_seen_twice(count: int, seed: int, data: st.DataObject) -> None:
    per_step = data.draw(st.integers(1, count))
    tasks = list(range(count))
    seen = [task for step in range(2 * count) for task in tasks_of_step(tasks, step, per_step, seed)]
    for epoch in range(len(seen) // count):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == tasks


@given(count=st.integers(1, 12), seed=st.integers(0, 1000), step=st.integers(0, 60), data=st.data())
def test_no_step_has_a_task_twice(count: int, seed: int, step: int, data: st.DataObject) -> None:
    per_step = data.draw(st.integers(1, count))
    assert len(set(tasks_of_step(range(count), step, per_step, seed))) == per_step


def test_a_step_is_a_function_of_seed_and_step() -> None:
    tasks = list(range(100))
    assert tasks_of_step(tasks, 7, 4, 3) == tasks_of_step(tasks, 7, 4, 3)
    assert tasks_of_step(tasks, 7, 4, 3) != tasks_of_step(tasks, 7, 4, 4)
    assert tasks_of_step(tasks, 7, 4, 3) != tasks_of_step(tasks, 8, 4, 3)


@pytest.mark.parametrize("per_step", [0, 5])
def test_a_step_that_does_not_fit_is_refused(per_step: int) -> None:
    with pytest.raises(ValueError, match="does not fit a split of 4"):
        tasks_of_step([1, 2, 3, 4], 0, per_step, 0)
