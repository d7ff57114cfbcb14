"""A cell's figures are of the trials that count, and say what does not."""

import pytest
from evaluated import trial, trials

from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.evaluate.results import Cell, Evaluation, result_of

TRIALS = trials(a_1=[1, 1, 0, 0], a_2=[0, None, 1, 1], b_1=[None, None, None, None], b_2=[1, 1, 1, 1])


def test_faults_are_in_the_coverage_and_in_no_rate() -> None:
    found = result_of(Cell("m", "h", tuple(TRIALS), 20), (1, 2, 4))
    assert found.score == Score(8, 11)
    assert found.interval == wilson(Score(8, 11))
    assert (found.scored, found.launched, found.coverage) == (11, 20, 0.55)
    assert found.faults == {"not_run": 4, "sandbox_start": 5}
    assert found.tasks == 3
    assert (found.pass_at[4].tasks, found.pass_at[4].left_out) == (2, 2)
    assert found.pass_hat[4].value == pytest.approx((0 + 1) / 2)
    assert found.pass_at[2].value == pytest.approx(((1 - 1 / 6) + 1.0 + 1.0) / 3)
    assert found.groups == {"a": Score(4, 7), "b": Score(4, 4)}


@pytest.mark.parametrize(("reward", "rate"), [(0, 0.0), (1, 1.0)])
def test_none_and_all_solved(reward: int, rate: float) -> None:
    found = result_of(Cell("m", "h", tuple(trials(a=[reward] * 3, b=[reward] * 3)), 6), (1, 3))
    assert found.score.rate == rate
    assert found.interval.low <= rate <= found.interval.high
    assert 0 < found.interval.high - found.interval.low < 1
    assert {found.pass_at[k].value for k in (1, 3)} == {found.pass_hat[k].value for k in (1, 3)} == {rate}


def test_a_cell_of_which_nothing_has_ended_has_no_rate() -> None:
    found = result_of(Cell("m", "h", (), 8), (1, 2))
    assert (found.score.rate, found.coverage, found.faults) == (None, 0.0, {"not_run": 8})
    assert (found.pass_at[1].value, found.turns) == (None, None)
    assert result_of(Cell("m", "h", (), 0), (1,)).coverage == 1.0


def test_means_are_of_scored_trials() -> None:
    both = (
        trial("a", 0, 1, sampled=10, turns=2, seconds=1.0),
        trial("a", 1, None, sampled=999, turns=99, seconds=99.0),
    )
    found = result_of(Cell("m", "h", both, 2), (1,))
    assert (found.sampled, found.turns, found.seconds) == (10, 2, 1.0)


def test_without_excluded_tasks_less_is_launched_too() -> None:
    kept = Cell("m", "h", tuple(TRIALS), 16).without(["b-1", "b-2"], 4)
    assert result_of(kept, (1,)).score == Score(4, 7)
    assert kept.launched == 8


@pytest.mark.parametrize(("attempts", "ks"), [(1, (1,)), (2, (1, 2)), (5, (1, 2, 4, 5)), (8, (1, 2, 4, 8))])
def test_which_k_are_reported(attempts: int, ks: tuple[int, ...]) -> None:
    assert Evaluation("e", {}, attempts, ()).ks == ks
