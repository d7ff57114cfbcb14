"""The fault table: one case a row, and the law that no conduct of an agent masks its reward."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import RunError
from lego_rl.rollout.faults import (
    FAULT_TABLE,
    Conduct,
    Ended,
    Fault,
    HostEvidence,
    HostFailure,
    Treatment,
    check_batch,
    classify,
    reward_of,
    unrecordable,
)

BEGAN = HostEvidence(began=True, requests=3)
NOT_BEGAN = HostEvidence(began=False, requests=0)
GRADED = Conduct(exit_code=0, snapshot=True, reward=1)


def failed(failure: HostFailure, *, began: bool) -> HostEvidence:
    return HostEvidence(began=began, requests=3 if began else 0, failure=failure)


CASES = [
    (BEGAN, GRADED, Ended.FINISHED, 1),
    (BEGAN, Conduct(exit_code=0, snapshot=True, reward=0), Ended.FINISHED, 0),
    (BEGAN, Conduct(exit_code=0, budget_hit="turns", snapshot=True, reward=1), Ended.BUDGET_EXHAUSTED, 1),
    (BEGAN, Conduct(timed_out=True, snapshot=True, reward=1), Ended.AGENT_TIMEOUT, 1),
    (BEGAN, Conduct(exit_code=1, snapshot=True, reward=1), Ended.HARNESS_ERROR, 1),
    (BEGAN, Conduct(exit_code=137, snapshot=True, reward=1), Ended.HARNESS_KILLED, 1),
    (BEGAN, Conduct(exit_code=129, snapshot=True, reward=0), Ended.HARNESS_KILLED, 0),
    (BEGAN, Conduct(exit_code=128, snapshot=True, reward=0), Ended.HARNESS_ERROR, 0),
    (BEGAN, Conduct(exit_code=None, snapshot=True, reward=1), Ended.SANDBOX_LOST, 1),
    (BEGAN, Conduct(exit_code=0), Ended.NO_SNAPSHOT, 0),
    (BEGAN, Conduct(exit_code=0, snapshot=True), Ended.UNGRADABLE, 0),
    (BEGAN, Conduct(exit_code=0, snapshot=True, grading_timed_out=True), Ended.GRADING_TIMEOUT, 0),
    (failed(HostFailure.SANDBOX_START, began=False), Conduct(), Ended.SANDBOX_START, None),
    (failed(HostFailure.SETUP, began=False), Conduct(), Ended.SETUP_FAILED, None),
    (HostEvidence(began=True, requests=0), Conduct(exit_code=1, snapshot=True, reward=0), Ended.HARNESS_SILENT, None),
    (failed(HostFailure.ENGINE, began=True), Conduct(exit_code=1, snapshot=True, reward=0), Ended.ENGINE_FAILED, None),
    (failed(HostFailure.GRADING_START, began=True), Conduct(exit_code=0, snapshot=True), Ended.GRADING_START, None),
    (failed(HostFailure.SHORTAGE, began=True), Conduct(exit_code=0), Ended.HOST_SHORTAGE, None),
    (NOT_BEGAN, Conduct(), Ended.UNATTRIBUTED_BEFORE, None),
    (failed(HostFailure.INTERNAL, began=False), Conduct(), Ended.UNATTRIBUTED_BEFORE, None),
    (failed(HostFailure.INTERNAL, began=True), Conduct(), Ended.UNATTRIBUTED_AFTER, 0),
    (failed(HostFailure.INTERNAL, began=True), GRADED, Ended.UNATTRIBUTED_AFTER, 1),
]


@pytest.mark.parametrize(("host", "conduct", "ended", "reward"), CASES)
def test_row(host: HostEvidence, conduct: Conduct, ended: Ended, reward: int | None) -> None:
    row = classify(host, conduct)
    assert row.ended is ended
    assert reward_of(row, conduct) == reward


ELSEWHERE = {Ended.UNRECORDABLE, Ended.CANCELLED}
"""Rows that no evidence leads to: the store finds the one, the user who stops a run brings about the other."""


def test_every_row_has_a_case() -> None:
    assert {ended for _, _, ended, _ in CASES} | ELSEWHERE == set(Ended) == set(FAULT_TABLE)


def test_a_record_that_cannot_be_kept_is_a_zero_unless_the_host_had_failed() -> None:
    for row in FAULT_TABLE.values():
        masked = row.treatment is Treatment.MASKED
        assert unrecordable(row) is (row if masked else FAULT_TABLE[Ended.UNRECORDABLE])
    assert reward_of(FAULT_TABLE[Ended.UNRECORDABLE], GRADED) == 0


def test_every_host_failure_but_the_unexplained_is_masked() -> None:
    for failure in set(HostFailure) - {HostFailure.INTERNAL}:
        assert classify(failed(failure, began=True), GRADED).treatment is Treatment.MASKED


def test_what_is_masked_is_retried_unless_the_user_stopped_the_run() -> None:
    for row in FAULT_TABLE.values():
        assert row.retry == (row.treatment is Treatment.MASKED and row.ended is not Ended.CANCELLED)


def test_only_the_infrastructure_or_nobody_is_ever_masked() -> None:
    for row in FAULT_TABLE.values():
        assert (row.treatment is Treatment.MASKED) <= (row.fault is not Fault.POLICY)
        assert (row.fault is Fault.INFRASTRUCTURE) <= (row.treatment is Treatment.MASKED)


conducts = st.builds(
    Conduct,
    exit_code=st.none() | st.integers(0, 255),
    timed_out=st.booleans(),
    budget_hit=st.none() | st.text(max_size=8),
    snapshot=st.booleans(),
    reward=st.sampled_from([None, 0, 1]),
    grading_timed_out=st.booleans(),
)


@given(conduct=conducts, requests=st.integers(1, 10), failure=st.sampled_from([None, HostFailure.INTERNAL]))
def test_no_conduct_of_an_agent_that_has_begun_masks_its_reward(
    conduct: Conduct, requests: int, failure: HostFailure | None
) -> None:
    row = classify(HostEvidence(began=True, requests=requests, failure=failure), conduct)
    assert row.treatment is not Treatment.MASKED
    assert reward_of(row, conduct) in (0, 1)
    if reward_of(row, conduct) == 1:
        assert conduct.reward == 1


@given(
    conduct=conducts,
    host=st.builds(
        HostEvidence,
        began=st.booleans(),
        requests=st.integers(0, 3),
        failure=st.none() | st.sampled_from(HostFailure),
    ),
)
def test_the_table_is_total(conduct: Conduct, host: HostEvidence) -> None:
    row = classify(host, conduct)
    assert FAULT_TABLE[row.ended] is row
    assert (reward_of(row, conduct) is None) == (row.treatment is Treatment.MASKED)


def test_a_trial_that_is_not_to_be_graded_has_no_reward_and_no_fault() -> None:
    conduct = Conduct(exit_code=0, to_grade=False)
    row = classify(BEGAN, conduct)
    assert row.ended is Ended.FINISHED
    assert reward_of(row, conduct) is None


def batch(**counts: int) -> list[tuple[Ended, str]]:
    return [(Ended(name), f"because of {name}") for name, count in counts.items() for _ in range(count)]


def test_a_batch_may_have_one_in_twenty_unattributed() -> None:
    check_batch(batch(finished=19, unattributed_after=1))


def test_more_than_one_in_twenty_unattributed_stops_the_run() -> None:
    with pytest.raises(RunError, match=r"2 of 32 trials .* because of unattributed_after"):
        check_batch(batch(finished=30, unattributed_after=2))


def test_unattributed_counts_before_and_after_together() -> None:
    with pytest.raises(RunError, match="2 of 32"):
        check_batch(batch(finished=30, unattributed_after=1, unattributed_before=1))


def test_a_batch_that_infrastructure_took_whole_stops_the_run_and_names_the_commonest_reason() -> None:
    with pytest.raises(RunError, match="all 5 trials: because of sandbox_start"):
        check_batch(batch(engine_failed=2, sandbox_start=3))


def test_infrastructure_faults_with_anything_measured_do_not_stop_the_run() -> None:
    check_batch(batch(engine_failed=31, finished=1))
    check_batch([])
