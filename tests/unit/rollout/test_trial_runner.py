"""Batches: order, concurrency, resume, records."""

import asyncio
from dataclasses import replace

import pytest
from runner_kit import Trials, record, specs

from lego_rl.errors import ConfigError, RunError
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.messages import Json, Message, ToolCall
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress, TrialEnded
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory


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
    begun = asyncio.Barrier(3)

    async def breaks(spec: TrialSpec, tries: int) -> TrialRecord:
        await begun.wait()
        try:
            if spec.attempt:
                await asyncio.Event().wait()
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
