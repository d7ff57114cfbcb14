"""From evidence to a row: one case a row, and the law that nothing an agent does masks its reward."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.gateway.trajectory import BudgetHit
from lego_rl.rollout.attribution import (
    AgentEvidence,
    HostEvidence,
    HostFailure,
    LastAnswer,
    Reached,
    classify,
    reward_of,
)
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.spec import Grading
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.verdict import GradingEnd

ASKED = HostEvidence(Reached.ASKED)
UNASKED = HostEvidence(Reached.STARTED)
NOT_STARTED = HostEvidence(Reached.NOTHING)
GRADED = AgentEvidence(exit_code=0, snapshot=True, reward=1, grading="completed")


def failed(failure: HostFailure, reached: Reached = Reached.ASKED) -> HostEvidence:
    return HostEvidence(reached, failure)


def graded(reward: int = 1, **changes: object) -> AgentEvidence:
    made = {"exit_code": 0, "snapshot": True, "reward": reward, "grading": "completed"} | changes
    return AgentEvidence(**made)  # type: ignore[arg-type]


CASES = [
    (ASKED, graded(), Ended.FINISHED, 1),
    (ASKED, graded(0), Ended.FINISHED, 0),
    (ASKED, graded(budget_hit="turns"), Ended.TURN_BUDGET, 1),
    (ASKED, graded(budget_hit="context"), Ended.CONTEXT_BUDGET, 1),
    (ASKED, graded(budget_hit="wall_clock", timed_out=True), Ended.WALL_CLOCK_BUDGET, 1),
    (ASKED, graded(budget_hit="attempts", exit_code=1), Ended.ATTEMPT_BUDGET, 1),
    (ASKED, graded(last_answer="cut"), Ended.OUTPUT_BUDGET, 1),
    (ASKED, graded(last_answer="malformed", exit_code=1), Ended.MALFORMED_CALL, 1),
    (ASKED, graded(exit_code=None, timed_out=True), Ended.AGENT_TIMEOUT, 1),
    (ASKED, graded(exit_code=1), Ended.HARNESS_ERROR, 1),
    (ASKED, graded(exit_code=128), Ended.HARNESS_ERROR, 1),
    (ASKED, graded(exit_code=129, last_answer="cut"), Ended.HARNESS_KILLED, 1),
    (ASKED, graded(exit_code=192), Ended.HARNESS_KILLED, 1),
    (ASKED, graded(exit_code=128), Ended.HARNESS_ERROR, 1),
    (ASKED, graded(exit_code=193), Ended.HARNESS_ERROR, 1),
    (ASKED, graded(exit_code=255), Ended.HARNESS_ERROR, 1),
    (ASKED, graded(exit_code=137, hits=LimitHits(memory=1)), Ended.OUT_OF_MEMORY, 1),
    (ASKED, graded(exit_code=0, hits=LimitHits(memory=1)), Ended.FINISHED, 1),
    (ASKED, graded(exit_code=None, hits=LimitHits(disk=True, memory=1), too_large=True), Ended.OUT_OF_DISK, 1),
    (ASKED, graded(exit_code=None, hits=LimitHits(disk=True), budget_hit="turns"), Ended.TURN_BUDGET, 1),
    (ASKED, graded(exit_code=1, hits=LimitHits(processes=9)), Ended.TOO_MANY_PROCESSES, 1),
    (ASKED, graded(exit_code=None, hits=LimitHits(unmeasured=True)), Ended.LIMITS_UNMEASURED, 1),
    (ASKED, graded(exit_code=None), Ended.SANDBOX_LOST, 1),
    (ASKED, graded(too_large=True, budget_hit="turns"), Ended.PATCH_TOO_LARGE, 1),
    (ASKED, AgentEvidence(exit_code=0), Ended.NO_SNAPSHOT, 0),
    (ASKED, graded(0, grading="not_applied"), Ended.PATCH_NOT_APPLIED, 0),
    (ASKED, graded(0, grading="timed_out"), Ended.VERIFIER_TIMEOUT, 0),
    (ASKED, AgentEvidence(exit_code=0, snapshot=True, grading="timed_out"), Ended.VERIFIER_TIMEOUT, 0),
    (ASKED, graded(0, grading="died"), Ended.VERIFIER_CRASHED, 0),
    (ASKED, AgentEvidence(exit_code=0, snapshot=True), Ended.VERIFIER_CRASHED, 0),
    (ASKED, graded(0, grading="no_report"), Ended.NO_VERDICT, 0),
    (failed(HostFailure.TASK, Reached.NOTHING), AgentEvidence(), Ended.TASK_UNUSABLE, None),
    (failed(HostFailure.SANDBOX_START, Reached.NOTHING), AgentEvidence(), Ended.SANDBOX_START, None),
    (failed(HostFailure.SEAL, Reached.NOTHING), AgentEvidence(), Ended.SEAL_FAILED, None),
    (failed(HostFailure.SETUP, Reached.NOTHING), AgentEvidence(), Ended.SETUP_FAILED, None),
    (UNASKED, graded(0, exit_code=1), Ended.HARNESS_SILENT, None),
    (UNASKED, AgentEvidence(), Ended.HARNESS_SILENT, None),
    (failed(HostFailure.ENGINE), graded(), Ended.ENGINE_FAILED, None),
    (failed(HostFailure.ENGINE_SILENT), graded(), Ended.ENGINE_SILENT, None),
    (failed(HostFailure.CAPTURE), graded(), Ended.CAPTURE_FAILED, None),
    (failed(HostFailure.GATEWAY), graded(), Ended.GATEWAY_LOST, None),
    (failed(HostFailure.SANDBOX_KILLED), graded(0, exit_code=None), Ended.SANDBOX_KILLED, None),
    (failed(HostFailure.RUNTIME), AgentEvidence(), Ended.RUNTIME_LOST, None),
    (failed(HostFailure.GRADING_START), AgentEvidence(exit_code=0, snapshot=True), Ended.GRADING_START, None),
    (failed(HostFailure.DISK), AgentEvidence(exit_code=0), Ended.HOST_DISK_FULL, None),
    (failed(HostFailure.MEMORY), AgentEvidence(exit_code=0), Ended.HOST_OUT_OF_MEMORY, None),
    (failed(HostFailure.HANDLES), AgentEvidence(exit_code=0), Ended.HOST_OUT_OF_HANDLES, None),
    (NOT_STARTED, AgentEvidence(), Ended.UNATTRIBUTED_BEFORE, None),
    (NOT_STARTED, AgentEvidence(unforeseen=True), Ended.UNATTRIBUTED_BEFORE, None),
    (UNASKED, AgentEvidence(unforeseen=True), Ended.UNATTRIBUTED_BEFORE, None),
    (ASKED, AgentEvidence(unforeseen=True), Ended.UNATTRIBUTED_AFTER, 0),
    (ASKED, graded(unforeseen=True), Ended.UNATTRIBUTED_AFTER, 1),
    (failed(HostFailure.SANDBOX_KILLED), graded(unforeseen=True), Ended.SANDBOX_KILLED, None),
]


@pytest.mark.parametrize(("host", "agent", "ended", "reward"), CASES)
def test_row(host: HostEvidence, agent: AgentEvidence, ended: Ended, reward: int | None) -> None:
    row = classify(host, agent, Grading.FRESH)
    assert row.ended is ended
    assert reward_of(row, agent, Grading.FRESH) == reward


ELSEWHERE = {Ended.UNRECORDABLE, Ended.CANCELLED}
"""Rows that no evidence leads to: the store finds the one, the user who stops a run brings about the other."""


def test_every_row_has_a_case() -> None:
    assert {ended for _, _, ended, _ in CASES} | ELSEWHERE == set(Ended) == set(FAULT_TABLE)


@pytest.mark.parametrize("reached", Reached)
def test_every_host_failure_is_masked(reached: Reached) -> None:
    for failure in HostFailure:
        assert classify(failed(failure, reached), GRADED, Grading.FRESH).is_masked


hits = st.builds(LimitHits, st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans())
agents = st.builds(
    AgentEvidence,
    exit_code=st.none() | st.integers(0, 255),
    timed_out=st.booleans(),
    budget_hit=st.none() | st.sampled_from(get_args(BudgetHit.__value__)),
    last_answer=st.sampled_from(get_args(LastAnswer.__value__)),
    hits=hits,
    snapshot=st.booleans(),
    too_large=st.booleans(),
    reward=st.sampled_from([None, 0, 1]),
    grading=st.none() | st.sampled_from(get_args(GradingEnd.__value__)),
    unforeseen=st.booleans(),
)


@given(agent=agents)
def test_nothing_that_an_agent_does_masks_its_reward(agent: AgentEvidence) -> None:
    row = classify(ASKED, agent, Grading.FRESH)
    assert not row.is_masked
    reward = reward_of(row, agent, Grading.FRESH)
    assert reward in (0, 1)
    if reward == 1:
        assert agent.reward == 1


@pytest.mark.parametrize("host", [UNASKED, NOT_STARTED])
@given(agent=agents)
def test_a_policy_that_was_never_asked_answers_for_nothing(host: HostEvidence, agent: AgentEvidence) -> None:
    assert classify(host, agent, Grading.FRESH).is_masked


@given(
    agent=agents,
    host=st.builds(HostEvidence, reached=st.sampled_from(Reached), failure=st.none() | st.sampled_from(HostFailure)),
    grading=st.sampled_from(Grading),
)
def test_the_table_is_total(agent: AgentEvidence, host: HostEvidence, grading: Grading) -> None:
    row = classify(host, agent, grading)
    assert FAULT_TABLE[row.ended] is row
    assert (reward_of(row, agent, grading) is None) == (row.is_masked or grading is Grading.NONE)


def test_a_trial_that_is_not_to_be_graded_has_no_reward_and_no_fault() -> None:
    agent = AgentEvidence(exit_code=0)
    row = classify(ASKED, agent, Grading.NONE)
    assert row.ended is Ended.FINISHED
    assert reward_of(row, agent, Grading.NONE) is None
