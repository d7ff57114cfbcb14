"""Which trials a batch tries again, when, and how often."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner_kit import Trials, kinds, record, specs

from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Fault
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import BatchStarted, Progress, TrialEnded, TrialRetried, TrialStarted
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.settled import STARTED, settled_records
from lego_rl.rollout.settling import LONGEST_PAUSE_SEC, pause_before
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory


@pytest.mark.parametrize("ended", sorted(Ended))
async def test_a_trial_is_tried_again_as_often_as_its_row_says(run: RunDirectory, ended: Ended) -> None:
    async def first_fails(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, ended if spec.attempt == 0 else Ended.FINISHED)

    trials = Trials(run.store, first_fails)
    # One unattributed trial stops a batch of fewer than twenty.
    count = 20 if FAULT_TABLE[ended].fault is Fault.UNKNOWN else 2
    with Journal(run.journal) as journal:
        records = await run_trials(specs(count), trials, journal, concurrency=5, retries=2, retry_pause_sec=0)
    expected = 1 + min(2, FAULT_TABLE[ended].retries)
    assert trials.ran.count(0) == expected
    assert len(trials.ran) == count - 1 + expected
    assert records[0].tries == expected
    assert records[0].outcome.ended is ended


async def test_a_fault_that_passes_leaves_a_scored_trial_and_its_tries_in_the_journal(run: RunDirectory) -> None:
    async def second_try_works(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.ENGINE_FAILED if tries == 1 else Ended.FINISHED)

    events: list[Progress] = []
    with Journal(run.journal) as journal:
        (only,) = await run_trials(
            specs(1),
            Trials(run.store, second_try_works),
            journal,
            concurrency=1,
            retry_pause_sec=0,
            progress=events.append,
        )
    assert (only.outcome.reward, only.tries) == (1, 2)
    assert kinds(run) == [
        ("trial-started", 1),
        ("trial-faulted", 1),
        ("trial-started", 2),
        ("trial-scored", 2),
    ]
    assert [type(event) for event in events] == [BatchStarted, TrialStarted, TrialRetried, TrialStarted, TrialEnded]
    assert isinstance(events[2], TrialRetried) and events[2].outcome.ended is Ended.ENGINE_FAILED


async def test_a_trial_that_no_try_could_score_is_run_again_by_a_resumed_batch(run: RunDirectory) -> None:
    async def fails(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.SANDBOX_START if spec.attempt == 0 else Ended.FINISHED)

    with Journal(run.journal) as journal:
        first = await run_trials(
            specs(2), Trials(run.store, fails), journal, concurrency=1, retries=1, retry_pause_sec=0
        )
        second = await run_trials(specs(2), Trials(run.store), journal, concurrency=1, retries=1, retry_pause_sec=0)
    assert [one.outcome.reward for one in first] == [None, 1]
    assert [one.outcome.reward for one in second] == [1, 1]
    assert [one.tries for one in second] == [3, 1]


@pytest.mark.parametrize(("count", "unattributed", "again"), [(4, [1, 3], [1, 3]), (20, [3], [])])
async def test_only_where_unattributed_trials_stopped_the_run_a_resumed_one_runs_them_again(
    run: RunDirectory, count: int, unattributed: list[int], again: list[int]
) -> None:
    async def has_a_bug(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.UNATTRIBUTED_AFTER if spec.attempt in unattributed else Ended.FINISHED)

    def stops() -> contextlib.AbstractContextManager[object]:
        return pytest.raises(RunError, match="runs them again") if again else contextlib.nullcontext()

    with Journal(run.journal) as journal, stops():
        await run_trials(specs(count), Trials(run.store, has_a_bug), journal, concurrency=4)
    still = Trials(run.store, has_a_bug)
    with Journal(run.journal) as journal, stops():
        await run_trials(specs(count), still, journal, concurrency=4)
    mended = Trials(run.store)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(count), mended, journal, concurrency=4)
    assert sorted(still.ran) == sorted(mended.ran) == again
    assert len(records) == count
    assert {record.spec.attempt for record in records if record.tries == 3} == set(again)
    if again:
        assert {record.outcome.ended for record in records} == {Ended.FINISHED}
        calm = Trials(run.store)
        with Journal(run.journal) as journal:
            assert await run_trials(specs(count), calm, journal, concurrency=4) == records
        assert calm.ran == []


async def test_what_stopped_a_run_before_and_after_the_agent_began_is_run_again_together(run: RunDirectory) -> None:
    """One of each is too many of 32, though a resumed batch finds only one of them scored."""
    rows = {3: Ended.UNATTRIBUTED_AFTER, 5: Ended.UNATTRIBUTED_BEFORE}

    async def has_a_bug(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, rows.get(spec.attempt, Ended.FINISHED))

    with Journal(run.journal) as journal, pytest.raises(RunError, match="runs them again"):
        await run_trials(specs(32), Trials(run.store, has_a_bug), journal, concurrency=4, retries=0)
    assert len(list(settled_records(run))) == 30
    mended = Trials(run.store)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(32), mended, journal, concurrency=4)
    assert sorted(mended.ran) == [3, 5]
    assert {record.outcome.ended for record in records} == {Ended.FINISHED}


async def test_an_unattributed_trial_whose_next_try_was_killed_is_not_taken_for_scored(run: RunDirectory) -> None:
    async def has_a_bug(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.UNATTRIBUTED_AFTER)

    (spec,) = specs(1)
    with Journal(run.journal) as journal:
        with pytest.raises(RunError):
            await run_trials([spec], Trials(run.store, has_a_bug), journal, concurrency=1)
        journal.append(STARTED, {"id": spec.id, "try": 2})
    assert list(settled_records(run)) == []
    with Journal(run.journal) as journal:
        (only,) = await run_trials([spec], Trials(run.store), journal, concurrency=1)
    assert only.tries == 3
    assert list(settled_records(run)) == [only]


@given(retry=st.integers(0, 10_000), first=st.floats(0, 1e6))
def test_pauses_never_shrink_and_are_bounded(retry: int, first: float) -> None:
    assert pause_before(0, first) == first
    assert first <= pause_before(retry, first) <= pause_before(retry + 1, first) <= max(first, LONGEST_PAUSE_SEC)


async def test_a_short_shortage_of_the_host_passes_between_two_tries(run: RunDirectory) -> None:
    began: list[float] = []

    async def short(spec: TrialSpec, tries: int) -> TrialRecord:
        began.append(asyncio.get_running_loop().time())
        return record(spec, Ended.HOST_DISK_FULL if began[-1] - began[0] < 0.15 else Ended.FINISHED)

    events: list[Progress] = []
    with Journal(run.journal) as journal:
        (only,) = await run_trials(
            specs(1), Trials(run.store, short), journal, concurrency=1, retry_pause_sec=0.1, progress=events.append
        )
    assert only.outcome.ended is Ended.FINISHED
    pauses = [event.pause_sec for event in events if isinstance(event, TrialRetried)]
    assert pauses == [0.1, 0.2][: len(pauses)]
    assert pauses


async def test_a_run_can_be_stopped_in_a_pause(run: RunDirectory) -> None:
    pausing = asyncio.Event()

    async def fails(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.ENGINE_FAILED)

    def watch(event: Progress) -> None:
        if isinstance(event, TrialRetried):
            pausing.set()

    with Journal(run.journal) as journal:
        batch = asyncio.create_task(
            run_trials(
                specs(1), Trials(run.store, fails), journal, concurrency=1, retry_pause_sec=600.0, progress=watch
            )
        )
        await pausing.wait()
        batch.cancel()
        done, _ = await asyncio.wait({batch}, timeout=5)
    assert done == {batch}
    assert batch.cancelled()
    assert kinds(run) == [("trial-started", 1), ("trial-faulted", 1)]
