"""pass@k and pass^k against every subset counted by hand, and at their ends."""

from fractions import Fraction
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.passk import mean_pass_at_k, mean_pass_hat_k, pass_at_k, pass_hat_k


@st.composite
def cases(draw: st.DrawFn) -> tuple[Score, int]:
    trials = draw(st.integers(1, 9))
    return Score(draw(st.integers(0, trials)), trials), draw(st.integers(1, trials))


@given(cases())
def test_both_are_the_share_of_all_ways_to_choose_k_attempts(case: tuple[Score, int]) -> None:
    score, k = case
    rewards = [1] * score.solved + [0] * (score.trials - score.solved)
    ways = list(combinations(rewards, k))
    assert pass_at_k(score, k) == pytest.approx(float(Fraction(sum(any(way) for way in ways), len(ways))), abs=1e-12)
    assert pass_hat_k(score, k) == pytest.approx(float(Fraction(sum(all(way) for way in ways), len(ways))), abs=1e-12)


@given(cases())
def test_more_attempts_make_one_success_likelier_and_all_of_them_less(case: tuple[Score, int]) -> None:
    score, k = case
    if k < score.trials:
        assert pass_at_k(score, k) <= pass_at_k(score, k + 1)
        assert pass_hat_k(score, k) >= pass_hat_k(score, k + 1)
    assert pass_at_k(score, 1) == pytest.approx(score.solved / score.trials)
    assert pass_hat_k(score, 1) == pytest.approx(score.solved / score.trials)


@pytest.mark.parametrize(("solved", "at", "hat"), [(0, 0.0, 0.0), (1, 1.0, 0.0), (7, 1.0, 0.0), (8, 1.0, 1.0)])
def test_with_k_all_attempts(solved: int, at: float, hat: float) -> None:
    assert (pass_at_k(Score(solved, 8), 8), pass_hat_k(Score(solved, 8), 8)) == (at, hat)


def test_large_counts_lose_nothing() -> None:
    assert pass_at_k(Score(1, 20_000), 10_000) == pytest.approx(0.5)
    assert 0.0 < pass_hat_k(Score(19_999, 20_000), 10_000) < 1.0


def test_tasks_with_too_few_attempts_are_left_out_and_counted() -> None:
    scores = [Score(1, 4), Score(4, 4), Score(2, 3), Score(0, 0)]
    found = mean_pass_at_k(scores, 4)
    assert (found.tasks, found.left_out) == (2, 2)
    assert found.value == pytest.approx(fmean([1.0, 1.0]))
    assert mean_pass_hat_k(scores, 4).value == pytest.approx(0.5)
    none = mean_pass_at_k([Score(0, 0)], 1)
    assert (none.value, none.tasks, none.left_out) == (None, 0, 1)


@pytest.mark.parametrize("k", [0, 5])
def test_k_outside_is_refused(k: int) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ConfigError, match=f"k = {k} is not estimated from 4 attempts"):
            estimate(Score(2, 4), k)
    with pytest.raises(ConfigError, match="k = 0 attempts are none"):
        mean_pass_at_k([], 0)
