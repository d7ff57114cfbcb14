"""A batch that is stopped: what it leaves, and when it lets go of the journal."""

import asyncio
import threading
from dataclasses import replace

import pytest
from runner_kit import Trials, kinds, record, specs

from lego_rl.errors import RunError
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.settled import settled_records
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore


async def test_a_batch_that_is_stopped_while_it_clears_up_lets_go_of_the_journal_only_afterwards(
    run: RunDirectory,
) -> None:
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow(Trials):
        def prepare(self) -> None:
            loop.call_soon_threadsafe(begun.set)
            may_end.wait(10)
            super().prepare()

    trials = Slow(run.store)
    with Journal(run.journal) as journal:
        batch = asyncio.create_task(run_trials(specs(1), trials, journal, concurrency=1))
        await begun.wait()  # the event loop is free for it
        batch.cancel()
        await asyncio.wait({batch}, timeout=0.05)
        assert not batch.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await batch
    assert (trials.prepared, trials.ran) == (1, [])


async def test_a_trial_that_is_cancelled_while_it_is_saved_does_not_count_and_is_saved_no_later(
    run: RunDirectory,
) -> None:
    saving, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    class Slow(TrialStore):
        def save(self, record: TrialRecord) -> None:
            loop.call_soon_threadsafe(saving.set)
            may_end.wait(10)
            super().save(record)

    with Journal(run.journal) as journal:
        batch = asyncio.create_task(run_trials(specs(1), Trials(Slow(run.trials)), journal, concurrency=1))
        await saving.wait()
        batch.cancel()
        await asyncio.wait({batch}, timeout=0.05)
        assert not batch.done(), "the record would be written after the journal is let go of"
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await batch
    assert run.store.ids() == [specs(1)[0].id]
    assert list(settled_records(run)) == []
    again = Trials(run.store)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(1), again, journal, concurrency=1)
    assert again.ran == [0]
    assert list(settled_records(run)) == records


async def test_cancellation_leaves_the_scored_trials_and_a_journal_that_resumes(run: RunDirectory) -> None:
    both_hang = asyncio.Event()
    hanging: list[int] = []
    cleaned: list[int] = []

    async def half_hang(spec: TrialSpec, tries: int) -> TrialRecord:
        if spec.attempt < 3:
            return record(spec)
        try:
            hanging.append(spec.attempt)
            if len(hanging) == 2:
                both_hang.set()
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(spec.attempt)

    journal = Journal(run.journal)
    batch = asyncio.create_task(run_trials(specs(8), Trials(run.store, half_hang), journal, concurrency=2))
    await both_hang.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    journal.close()
    assert sorted(cleaned) == [3, 4]
    assert run.store.ids() == sorted(spec.id for spec in specs(8)[:3])
    assert [kind for kind, _ in kinds(run)].count("trial-cancelled") == 2
    again = Trials(run.store)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(8), again, journal, concurrency=2)
    assert sorted(again.ran) == [3, 4, 5, 6, 7]
    assert len(records) == 8


async def has_a_bug_at(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec, Ended.UNATTRIBUTED_AFTER if spec.attempt in (0, 31) else Ended.FINISHED)


async def test_unattributed_trials_of_a_killed_batch_and_of_its_resumption_are_counted_together(
    run: RunDirectory,
) -> None:
    reached = asyncio.Event()

    async def until_the_second(spec: TrialSpec, tries: int) -> TrialRecord:
        if spec.attempt == 31:
            reached.set()
            await asyncio.Event().wait()
        return await has_a_bug_at(spec, tries)

    with Journal(run.journal) as journal:
        batch = asyncio.create_task(run_trials(specs(32), Trials(run.store, until_the_second), journal, concurrency=1))
        await reached.wait()
        batch.cancel()
        await asyncio.wait({batch})
    again = Trials(run.store, has_a_bug_at)
    with Journal(run.journal) as journal, pytest.raises(RunError, match="2 of 32 trials"):
        await run_trials(specs(32), again, journal, concurrency=1)
    assert again.ran == [31]
    mended = Trials(run.store)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(32), mended, journal, concurrency=1)
    assert sorted(mended.ran) == [0, 31]
    assert {each.outcome.ended for each in records} == {Ended.FINISHED}


async def test_every_step_is_counted_by_itself(run: RunDirectory) -> None:
    """One of twenty in each of three steps is borne; one step of nineteen is not, whatever came before it."""

    async def has_a_bug(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.UNATTRIBUTED_AFTER if spec.attempt == 7 else Ended.FINISHED)

    with Journal(run.journal) as journal:
        for step in range(3):
            batch = [replace(each, label=f"train/step-{step:04d}") for each in specs(20)]
            records = await run_trials(batch, Trials(run.store, has_a_bug), journal, concurrency=4)
            assert [each.outcome.ended for each in records].count(Ended.UNATTRIBUTED_AFTER) == 1
        batch = [replace(each, label="train/step-0003") for each in specs(19)]
        with pytest.raises(RunError, match="1 of 19 trials"):
            await run_trials(batch, Trials(run.store, has_a_bug), journal, concurrency=4)
