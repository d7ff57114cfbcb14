"""No trial is tried for ever: in a batch, over all trials of one, and however often a run is resumed."""

import contextlib

import pytest
from runner_kit import Trials, record, specs

from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE, MOST_TRIES, Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.settled import FAULTED, SCORED, STARTED, faulted_tries, settled_trials
from lego_rl.rollout.settling import retries_of_batch
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory

ROW = FAULT_TABLE[Ended.ENGINE_FAILED]
ROUND = 1 + ROW.retries
"""Tries of one call of `run_trials`."""


async def first_always_fails(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec, ROW.ended if spec.attempt == 0 else Ended.FINISHED)


async def always_fails(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec, ROW.ended)


async def batch(run: RunDirectory, trials: Trials, planned: list[TrialSpec], retries: int = 9) -> list[TrialRecord]:
    with Journal(run.journal) as journal:
        return await run_trials(planned, trials, journal, concurrency=1, retries=retries, retry_pause_sec=0)


async def test_the_caller_may_allow_fewer_tries_than_the_row_and_never_more(run: RunDirectory) -> None:
    for retries, expected in ((0, 1), (1, 2), (9, ROUND)):
        trials = Trials(run.store, first_always_fails)
        await batch(run, trials, specs(2), retries)
        assert trials.ran.count(0) == expected


async def test_a_trial_that_always_faults_is_given_up_however_often_its_run_is_resumed(run: RunDirectory) -> None:
    ran: list[int] = []
    for _ in range(MOST_TRIES):
        trials = Trials(run.store, first_always_fails)
        records = await batch(run, trials, specs(2))
        assert records[0].outcome.ended is ROW.ended
        ran += trials.ran
    assert ran.count(0) == MOST_TRIES
    assert ran.count(1) == 1
    assert records[0] == run.store.load(records[0].spec.id)
    assert records[0].tries == MOST_TRIES


async def test_the_last_round_is_cut_short_where_fewer_tries_are_left(run: RunDirectory) -> None:
    await batch(run, Trials(run.store, first_always_fails), specs(2), retries=0)
    tried = 1
    while tried < MOST_TRIES:
        trials = Trials(run.store, first_always_fails)
        await batch(run, trials, specs(2))
        assert len(trials.ran) == min(ROUND, MOST_TRIES - tried)
        tried += len(trials.ran)


async def test_what_stopped_a_batch_has_all_its_tries_again_once_somebody_mended_it(run: RunDirectory) -> None:
    for _ in range(MOST_TRIES):
        trials = Trials(run.store, always_fails)
        with pytest.raises(RunError, match="go on with the same command"):
            await batch(run, trials, specs(2))
        assert len(trials.ran) == 2 * ROUND
    with Journal(run.journal) as journal:
        assert faulted_tries(journal.entries) == {}
        assert len(settled_trials(journal.entries)) == 2, "their records are still those of the run"
    records = await batch(run, Trials(run.store), specs(2))
    assert [each.outcome.reward for each in records] == [1, 1]


@pytest.mark.parametrize("row", [Ended.UNATTRIBUTED_BEFORE, Ended.UNATTRIBUTED_AFTER])
async def test_a_trial_that_a_bug_takes_each_time_is_run_no_more(run: RunDirectory, row: Ended) -> None:
    async def first_has_a_bug(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, row if spec.attempt == 0 else Ended.FINISHED)

    ran: list[int] = []
    for _ in range(MOST_TRIES + 1):
        trials = Trials(run.store, first_has_a_bug)
        with pytest.raises(RunError, match=f"runs them again, up to {MOST_TRIES} tries"):
            await batch(run, trials, specs(2))
        ran += trials.ran
    assert ran.count(0) == MOST_TRIES
    assert ran.count(1) == 1
    mended = Trials(run.store)
    with pytest.raises(RunError, match="1 of 2 trials"):
        await batch(run, mended, specs(2))
    assert mended.ran == [], "its last record stands"


async def test_a_bug_of_other_trials_gives_none_that_faults_took_its_tries_again(run: RunDirectory) -> None:
    async def one_of_each(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, (ROW.ended, Ended.UNATTRIBUTED_AFTER, Ended.FINISHED)[spec.attempt])

    ran: list[int] = []
    for _ in range(MOST_TRIES + 1):
        trials = Trials(run.store, one_of_each)
        with pytest.raises(RunError, match="1 of 3 trials"):
            await batch(run, trials, specs(3))
        ran += trials.ran
    assert [ran.count(attempt) for attempt in range(3)] == [MOST_TRIES, MOST_TRIES, 1]


@pytest.mark.parametrize("count", [1, 4, 40])
async def test_all_trials_of_a_batch_share_a_number_of_further_tries(run: RunDirectory, count: int) -> None:
    trials = Trials(run.store, always_fails)
    with contextlib.suppress(RunError):
        await batch(run, trials, specs(count))
    assert len(trials.ran) == count + min(count * ROW.retries, retries_of_batch(count))
    assert set(trials.ran) == set(range(count)), "each has one try at least"


async def test_a_killed_or_stopped_try_is_none_that_a_fault_took(run: RunDirectory) -> None:
    (spec, other) = specs(2)
    with Journal(run.journal) as journal:
        for number in range(MOST_TRIES + 1):
            journal.append(STARTED, {"id": spec.id, "try": number + 1})
        assert faulted_tries(journal.entries) == {}
    records = await batch(run, Trials(run.store), [spec, other])
    assert records[0].tries == MOST_TRIES + 2


async def test_every_try_is_the_same_trial(run: RunDirectory) -> None:
    seen: list[TrialSpec] = []

    async def third_works(spec: TrialSpec, tries: int) -> TrialRecord:
        seen.append(spec)
        return record(spec, ROW.ended if tries < ROUND else Ended.FINISHED)

    (kept,) = await batch(run, Trials(run.store, third_works), specs(1))
    assert seen == [kept.spec] * ROUND
    assert len({each.seed for each in seen}) == 1
    with Journal(run.journal) as journal:
        assert [entry.kind for entry in journal.entries] == [STARTED, FAULTED] * (ROUND - 1) + [STARTED, SCORED]


async def test_a_row_of_another_versions_table_is_refused_and_not_guessed_at(run: RunDirectory) -> None:
    with Journal(run.journal) as journal:
        journal.append(SCORED, {"id": "one", "try": 1, "ended": "budget_exhausted"})
        with pytest.raises(RunError, match="'budget_exhausted', which is no row") as error:
            settled_trials(journal.entries)
    assert "the version of lego-rl that wrote it" in error.value.fix
