"""The laws of the fault table, and that an outcome and everyone who asks it keep to it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.evaluate.heldout import Score, score
from lego_rl.rollout.attribution import unrecordable
from lego_rl.rollout.faults import FAULT_TABLE, MOST_TRIES, Ended, Fault, Rewarded
from lego_rl.rollout.outcome import Outcome, Reward

ROWS = FAULT_TABLE.values()
REWARDS: dict[Rewarded, tuple[Reward | None, ...]] = {
    Rewarded.VERDICT: (0, 1, None),
    Rewarded.ZERO: (0, None),
    Rewarded.NOTHING: (None,),
}


def outcome(reward: Reward | None, ended: Ended) -> Outcome:
    return Outcome(reward, ended, None, "")


def test_every_way_to_end_has_a_row_of_its_name() -> None:
    assert list(FAULT_TABLE) == list(Ended)
    assert all(row.ended is ended for ended, row in FAULT_TABLE.items())


def test_a_policys_fault_counts_everywhere_and_is_never_tried_again() -> None:
    policys = [row for row in ROWS if row.fault in (Fault.POLICY, Fault.NONE) and row.ended is not Ended.CANCELLED]
    assert len(policys) > 15
    for row in policys:
        assert row.trained and row.in_group and row.in_denominator
        assert row.rewarded is not Rewarded.NOTHING
        assert row.retries == 0


def test_an_infrastructure_fault_counts_nowhere_and_is_tried_again_a_bounded_number_of_times() -> None:
    for row in ROWS:
        if row.fault is Fault.INFRASTRUCTURE:
            assert row.is_masked
            assert row.rewarded is Rewarded.NOTHING
            assert 1 <= row.retries < MOST_TRIES


def test_whatever_counts_for_nothing_has_no_reward_and_whatever_counts_has_one() -> None:
    for row in ROWS:
        assert row.trained == row.in_group == row.in_denominator == (row.rewarded is not Rewarded.NOTHING)


def test_what_nobody_explains_is_masked_only_before_the_agent_began() -> None:
    unknown = {row.ended: row.is_masked for row in ROWS if row.fault is Fault.UNKNOWN}
    assert unknown == {Ended.UNATTRIBUTED_BEFORE: True, Ended.UNATTRIBUTED_AFTER: False}


@pytest.mark.parametrize(("row", "reward"), list(itertools.product(ROWS, (0, 1, None))))
def test_an_outcome_has_no_reward_that_its_row_does_not_give(row: object, reward: Reward | None) -> None:
    ended = row.ended  # type: ignore[attr-defined]
    if reward in REWARDS[FAULT_TABLE[ended].rewarded]:
        assert outcome(reward, ended).reward == reward
    else:
        with pytest.raises(ValueError, match=ended):
            outcome(reward, ended)


@given(st.lists(st.sampled_from(Ended).flatmap(
    lambda ended: st.sampled_from(REWARDS[FAULT_TABLE[ended].rewarded]).map(lambda reward: outcome(reward, ended))
)))  # fmt: skip
def test_a_solve_rate_counts_exactly_what_the_table_says(outcomes: list[Outcome]) -> None:
    counted = [each.reward for each in outcomes if each.row.in_denominator and each.reward is not None]
    assert score(outcomes) == Score(counted.count(1), len(counted))


def test_a_record_that_cannot_be_kept_is_a_zero_unless_the_host_had_failed() -> None:
    for row in ROWS:
        assert unrecordable(row) is (row if row.is_masked else FAULT_TABLE[Ended.UNRECORDABLE])
