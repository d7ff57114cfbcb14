"""Intervals: against closed forms, against their definition, and against a plain resampling."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import Interval, Z, rise_of, wilson

scores = st.integers(1, 500).flatmap(lambda n: st.integers(0, n).map(lambda k: Score(k, n)))


@pytest.mark.parametrize("n", [1, 4, 32, 160])
def test_wilson_at_none_and_all_solved_has_its_closed_form(n: int) -> None:
    none, every = wilson(Score(0, n)), wilson(Score(n, n))
    assert none.low == 0.0
    assert none.high == pytest.approx(Z**2 / (n + Z**2))
    assert every.low == pytest.approx(n / (n + Z**2))
    assert every.high == 1.0


@given(scores)
def test_wilson_bounds_are_the_rates_that_the_score_test_just_rejects(score: Score) -> None:
    interval = wilson(score)
    assert score.rate is not None
    for bound in (interval.low, interval.high):
        deviation = abs(score.rate - bound)
        assert deviation == pytest.approx(Z * math.sqrt(bound * (1 - bound) / score.trials), abs=1e-7)


@given(scores)
def test_wilson_is_symmetric_and_holds_the_rate(score: Score) -> None:
    interval, mirrored = wilson(score), wilson(Score(score.trials - score.solved, score.trials))
    assert score.rate is not None
    assert 0.0 <= interval.low <= score.rate <= interval.high <= 1.0
    assert mirrored.low == pytest.approx(1 - interval.high)


def test_wilson_without_trials_says_nothing() -> None:
    assert wilson(Score()) == Interval(0.0, 1.0)


def test_rise_is_the_mean_over_tasks_and_with_equal_trials_the_difference_of_pooled_rates() -> None:
    pairs = [(Score(1, 4), Score(3, 4)), (Score(0, 4), Score(4, 4)), (Score(2, 4), Score(1, 4))]
    rise = rise_of(pairs)
    assert rise is not None
    assert rise.mean == pytest.approx((0.5 + 1.0 - 0.25) / 3) == pytest.approx(8 / 12 - 3 / 12)
    assert rise.interval.low <= rise.mean <= rise.interval.high
    assert rise_of(pairs) == rise


def test_rise_of_equal_tasks_has_no_width() -> None:
    rise = rise_of([(Score(1, 4), Score(3, 4))] * 12)
    assert rise is not None
    assert (rise.interval.low, rise.interval.high) == (0.5, 0.5)


def test_rise_needs_both_sides() -> None:
    assert rise_of([]) is None
    assert rise_of([(Score(1, 4), Score(3, 4))]) is None, "one task says nothing of others"
    assert rise_of([(Score(1, 4), Score())]) is None
    assert rise_of([(Score(), Score(1, 4))]) is None


@pytest.mark.parametrize("lost", [(Score(0, 4), Score()), (Score(), Score(4, 4))])
def test_a_task_that_lost_one_side_shifts_nothing(lost: tuple[Score, Score]) -> None:
    pairs = [(Score(1, 4), Score(3, 4)), (Score(0, 4), Score(2, 4))]
    assert rise_of([*pairs, lost]) == rise_of(pairs)


def test_masked_trials_shift_no_rise_by_the_mix_of_tasks() -> None:
    easy, hard = (Score(4, 4), Score(1, 1)), (Score(0, 4), Score(0, 4))
    rise = rise_of([easy, hard])
    assert rise is not None
    assert rise.mean == 0.0, "neither task changed, though the pooled rate fell"


def test_rise_interval_is_that_of_a_plain_resampling_of_tasks() -> None:
    rng = np.random.default_rng(5)
    pairs = [(Score(int(b), 4), Score(int(a), 4)) for b, a in rng.binomial(4, [0.2, 0.5], size=(40, 2))]
    rises = []
    for _ in range(4_000):
        chosen = [pairs[i] for i in rng.integers(len(pairs), size=len(pairs))]
        rises.append(sum(a.solved - b.solved for b, a in chosen) / (4 * len(chosen)))
    rise = rise_of(pairs)
    assert rise is not None
    assert (rise.interval.low, rise.interval.high) == pytest.approx(np.percentile(rises, [2.5, 97.5]), abs=0.02)


def test_alike_trials_of_a_task_do_not_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    outcomes = [(int(b), int(a)) for b, a in rng.integers(0, 2, size=(40, 2))]
    one = rise_of([(Score(b, 1), Score(a, 1)) for b, a in outcomes])
    eight = rise_of([(Score(8 * b, 8), Score(8 * a, 8)) for b, a in outcomes])
    assert one is not None
    assert one == eight
