"""Batches: retry, resume, concurrency, cancellation. Trials are functions here; the real ones are integration tests."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.messages import Json, Message, ToolCall
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Fault, Treatment
from lego_rl.rollout.journal import Journal, read_journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.runner import (
    LONGEST_PAUSE_SEC,
    Progress,
    TrialEnded,
    TrialRetried,
    TrialStarted,
    pause_before,
    run_trials,
)
from lego_rl.rollout.settled import STARTED, settled_records
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore


def specs(count: int) -> list[TrialSpec]:
    return [
        TrialSpec(
            task=Path("tasks/one"),
            label="train/step-0000",
            attempt=attempt,
            attempts=count,
            seed=attempt,
            temperature=1.0,
            budget=Budget(),
            harness=HarnessChoice("claude-code"),
        )
        for attempt in range(count)
    ]


def record(spec: TrialSpec, ended: Ended = Ended.FINISHED) -> TrialRecord:
    masked = FAULT_TABLE[ended].treatment is Treatment.MASKED
    outcome = Outcome(None if masked else 1, ended, None, f"{ended} of {spec.attempt}")
    return TrialRecord(spec, outcome, None, PhaseSeconds(total=1.0))


async def finishes(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec)


@dataclass
class Trials:
    """Runs a function in a trial's place, and counts."""

    store: TrialStore
    trial: Callable[[TrialSpec, int], Awaitable[TrialRecord]] = finishes
    ran: list[int] = field(default_factory=list)
    running: int = 0
    most: int = 0
    prepared: int = 0

    def prepare(self) -> None:
        assert not self.ran
        assert threading.current_thread() is not threading.main_thread()
        self.prepared += 1

    async def run(self, spec: TrialSpec) -> TrialRecord:
        self.ran.append(spec.attempt)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            return await self.trial(spec, self.ran.count(spec.attempt))
        finally:
            self.running -= 1


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.make(tmp_path / "run")


def kinds(run: RunDirectory) -> list[tuple[str, object]]:
    return [(entry.kind, entry.data["try"]) for entry in read_journal(run.journal)]


async def test_records_come_in_the_order_of_the_specifications(run: RunDirectory) -> None:
    async def slow_first(spec: TrialSpec, tries: int) -> TrialRecord:
        await asyncio.sleep(0.02 * (4 - spec.attempt))
        return record(spec)

    trials = Trials(run.store, slow_first)
    with Journal(run.journal) as journal:
        records = await run_trials(specs(4), trials, journal, concurrency=4)
    assert [one.spec.attempt for one in records] == [0, 1, 2, 3]
    assert [one.outcome for one in records] == [run.store.load(spec.id).outcome for spec in specs(4)]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_concurrency_is_used_and_never_exceeded(run: RunDirectory, concurrency: int) -> None:
    trials = Trials(run.store)
    with Journal(run.journal) as journal:
        await run_trials(specs(9), trials, journal, concurrency=concurrency)
    assert sorted(trials.ran) == list(range(9))
    assert trials.prepared == 1
    assert trials.most == min(concurrency, 9)


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


@pytest.mark.parametrize("ended", sorted(Ended))
async def test_exactly_the_rows_that_mask_are_tried_again_and_only_as_often_as_allowed(
    run: RunDirectory, ended: Ended
) -> None:
    async def first_fails(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, ended if spec.attempt == 0 else Ended.FINISHED)

    trials = Trials(run.store, first_fails)
    # One unattributed trial stops a batch of fewer than twenty.
    count = 20 if FAULT_TABLE[ended].fault is Fault.UNKNOWN else 2
    with Journal(run.journal) as journal:
        records = await run_trials(specs(count), trials, journal, concurrency=5, retries=2, retry_pause_sec=0)
    expected = 3 if FAULT_TABLE[ended].retry else 1
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
    assert [type(event) for event in events] == [TrialStarted, TrialRetried, TrialStarted, TrialEnded]
    assert isinstance(events[1], TrialRetried) and events[1].outcome.ended is Ended.ENGINE_FAILED


async def test_a_resumed_batch_runs_only_what_is_not_scored(run: RunDirectory) -> None:
    with Journal(run.journal) as journal:
        await run_trials(specs(6)[:4], Trials(run.store), journal, concurrency=2)
    again = Trials(run.store)
    events: list[Progress] = []
    with Journal(run.journal) as journal:
        records = await run_trials(specs(6), again, journal, concurrency=2, progress=events.append)
    assert sorted(again.ran) == [4, 5]
    assert len(records) == 6
    ended = [event for event in events if isinstance(event, TrialEnded)]
    assert [event.done for event in ended] == [1, 2, 3, 4, 5, 6]
    assert [event.loaded for event in ended] == [True] * 4 + [False] * 2
    assert {event.total for event in ended} == {6}


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
        return pytest.raises(RunError, match="--resume runs them again") if again else contextlib.nullcontext()

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
        return record(spec, Ended.HOST_SHORTAGE if began[-1] - began[0] < 0.15 else Ended.FINISHED)

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


async def test_a_record_without_its_journal_entry_counts_for_nothing(run: RunDirectory) -> None:
    (spec,) = specs(1)
    run.store.save(replace(record(spec), logs={"old": "from a process that was killed before it could tell"}))
    with Journal(run.journal) as journal:
        (only,) = await run_trials([spec], Trials(run.store), journal, concurrency=1)
    assert only.logs == {}
    assert run.store.load(spec.id) == only


async def test_a_scored_trial_without_its_record_stops_the_run(run: RunDirectory) -> None:
    (spec,) = specs(1)
    with Journal(run.journal) as journal:
        await run_trials([spec], Trials(run.store), journal, concurrency=1)
        (run.trials / spec.id / "outcome.json").unlink()
        with pytest.raises(RunError, match=f"record of trial {spec.id}"):
            await run_trials([spec], Trials(run.store), journal, concurrency=1)


async def test_a_bug_in_one_trial_ends_the_batch_only_after_the_others_are_cleaned_up(run: RunDirectory) -> None:
    cleaned: list[int] = []

    async def breaks(spec: TrialSpec, tries: int) -> TrialRecord:
        try:
            await asyncio.sleep(0.01 if spec.attempt == 0 else 60)
        finally:
            cleaned.append(spec.attempt)
        raise ZeroDivisionError

    with Journal(run.journal) as journal, pytest.raises(ZeroDivisionError):
        await run_trials(specs(3), Trials(run.store, breaks), journal, concurrency=3)
    assert sorted(cleaned) == [0, 1, 2]


async def test_a_batch_of_nothing_but_faults_raises_after_its_records_are_written(run: RunDirectory) -> None:
    async def fails(spec: TrialSpec, tries: int) -> TrialRecord:
        return record(spec, Ended.SANDBOX_START)

    with Journal(run.journal) as journal, pytest.raises(RunError, match="took all 3 trials: sandbox_start"):
        await run_trials(specs(3), Trials(run.store, fails), journal, concurrency=3, retries=0)
    assert len(run.store.ids()) == 3


async def test_impossible_requests_are_refused_before_anything_runs(run: RunDirectory) -> None:
    trials = Trials(run.store)
    with Journal(run.journal) as journal:
        with pytest.raises(ConfigError, match="2 times"):
            await run_trials(specs(1) * 2, trials, journal, concurrency=1)
        with pytest.raises(ConfigError, match="concurrency 0"):
            await run_trials(specs(1), trials, journal, concurrency=0)
        with pytest.raises(ConfigError, match="pause of -1"):
            await run_trials(specs(1), trials, journal, concurrency=1, retry_pause_sec=-1)
        assert await run_trials([], trials, journal, concurrency=1) == []
    assert trials.ran == []


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [150, 190, 199, 210, 240, 260, 900, 5_000])
@pytest.mark.parametrize(("ended", "reward"), [(Ended.FINISHED, 0), (Ended.ENGINE_FAILED, None)])
async def test_a_record_that_cannot_be_written_is_an_outcome_and_a_resumed_batch_goes_on(
    run: RunDirectory, levels: int, ended: Ended, reward: int | None
) -> None:
    async def sends_depth(spec: TrialSpec, tries: int) -> TrialRecord:
        call = ToolCall("call_1", "Bash", {"command": nested(levels)})
        told = ((Message("user", "Mend it."), Message("assistant", "", (call,))),)
        trajectory = Trajectory((), (), told, (), Accounting(calls=1, sampled_tokens=9))
        return replace(record(spec, ended), trajectory=trajectory, accounting=trajectory.accounting)

    with Journal(run.journal) as journal:
        fine = await run_trials(specs(2)[1:], Trials(run.store), journal, concurrency=1)
        first = await run_trials(specs(2), Trials(run.store, sends_depth), journal, concurrency=1, retries=0)
        again = await run_trials(specs(2), Trials(run.store, sends_depth), journal, concurrency=1, retries=0)
    assert first[1].outcome == again[1].outcome == fine[0].outcome
    kept = run.store.load(specs(2)[0].id)
    assert kept.outcome == first[0].outcome == again[0].outcome
    assert kept.accounting.sampled_tokens == 9
    if kept.trajectory is None:
        expected = Ended.UNRECORDABLE if ended is Ended.FINISHED else ended
        assert (kept.outcome.reward, kept.outcome.ended) == (reward, expected)
        assert kept.logs["error.txt"]
    else:
        assert (kept.outcome.ended, levels < 250) == (ended, True)
    assert (kept.trajectory is None) >= (levels >= 260)


async def test_only_who_holds_the_journal_removes_half_written_records(run: RunDirectory) -> None:
    half = run.trials / ".pending-abc"
    half.mkdir()
    with Journal(run.journal) as journal:
        with pytest.raises(RunError, match="another process is writing"):
            Journal(RunDirectory.make(run.path).journal)
        assert half.is_dir()
        await run_trials(specs(1), Trials(run.store), journal, concurrency=1)
    assert [path.name for path in run.trials.iterdir()] == [specs(1)[0].id]
