"""Trials one after the other: as many at a time as there are places, retried and resumed as a batch's are."""

import asyncio
from pathlib import Path

import pytest
from runner_kit import Trials, finishes, kinds, record, specs

from lego_rl.errors import ConfigError
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress, TrialEnded
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.stream import TrialStream


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.make(tmp_path / "run")


async def lost_once(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec, Ended.SANDBOX_START if tries == 1 else Ended.FINISHED)


async def always_lost(spec: TrialSpec, tries: int) -> TrialRecord:
    return record(spec, Ended.SANDBOX_START)


def streamed(
    run: RunDirectory, trials: Trials, count: int, concurrency: int = 2
) -> tuple[list[TrialRecord], list[Progress]]:
    events: list[Progress] = []

    async def all_of_them() -> list[TrialRecord]:
        with Journal(run.journal) as journal:
            stream = TrialStream(trials, journal, concurrency=concurrency, retry_pause_sec=0.0, progress=events.append)
            await stream.prepare()
            return list(await asyncio.gather(*map(stream.run, specs(count))))

    return asyncio.run(all_of_them()), events


def test_places_bound_how_many_run_and_all_come_to_their_end(run: RunDirectory) -> None:
    trials = Trials(run.store, finishes)
    records, events = streamed(run, trials, 7, concurrency=3)
    assert [each.spec.attempt for each in records] == [*range(7)]
    assert (trials.most, trials.prepared) == (3, 1)
    ended = [event for event in events if isinstance(event, TrialEnded)]
    assert [(event.done, event.loaded) for event in ended] == [(done, False) for done in range(1, 8)]


def test_what_is_scored_is_loaded_by_the_next_process(run: RunDirectory) -> None:
    first = streamed(run, Trials(run.store, finishes), 3)[0]
    later = Trials(run.store, finishes)
    records, events = streamed(run, later, 5)
    assert sorted(later.ran) == [3, 4]
    assert records[:3] == first
    loaded = {event.record.spec.attempt for event in events if isinstance(event, TrialEnded) and event.loaded}
    assert loaded == {0, 1, 2}


def test_a_fault_is_tried_again_and_the_journal_says_each_try(run: RunDirectory) -> None:
    (found,), _ = streamed(run, Trials(run.store, lost_once), 1)
    assert (found.outcome.ended, found.tries) == (Ended.FINISHED, 2)
    assert kinds(run) == [("trial-started", 1), ("trial-faulted", 1), ("trial-started", 2), ("trial-scored", 2)]


def test_faults_without_end_are_given_up(run: RunDirectory) -> None:
    trials = Trials(run.store, always_lost)
    records, _ = streamed(run, trials, 2)
    assert [each.outcome.ended for each in records] == [Ended.SANDBOX_START] * 2
    assert trials.ran.count(0) == trials.ran.count(1) == 3


def test_one_trial_does_not_run_twice_at_once_and_an_ended_one_is_loaded(run: RunDirectory) -> None:
    trials = Trials(run.store, finishes)

    async def twice() -> None:
        with Journal(run.journal) as journal:
            stream = TrialStream(trials, journal, concurrency=2)
            (spec,) = specs(1)
            running = asyncio.ensure_future(stream.run(spec))
            await asyncio.sleep(0)
            with pytest.raises(ConfigError, match="is being run already"):
                await stream.run(spec)
            assert await running == await stream.run(spec)

    asyncio.run(twice())
    assert trials.ran == [0]


def test_a_cancelled_trial_leaves_its_place_and_is_run_again(run: RunDirectory) -> None:
    async def hangs(spec: TrialSpec, tries: int) -> TrialRecord:
        await asyncio.sleep(3600 if spec.attempt == 0 and tries == 1 else 0)
        return record(spec)

    trials = Trials(run.store, hangs)

    async def cancelled() -> TrialRecord:
        with Journal(run.journal) as journal:
            stream = TrialStream(trials, journal, concurrency=1)
            first, second = specs(2)
            running = asyncio.ensure_future(stream.run(first))
            waiting = asyncio.ensure_future(stream.run(second))
            while not trials.ran:  # noqa: ASYNC110
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await waiting).outcome.ended is Ended.FINISHED
            return await stream.run(first)

    assert asyncio.run(cancelled()).outcome.ended is Ended.FINISHED
    assert trials.ran == [0, 1, 0]


@pytest.mark.parametrize("numbers", [{"concurrency": 0}, {"concurrency": 1, "retries": -1}])
def test_impossible_numbers_are_refused(run: RunDirectory, numbers: dict[str, int]) -> None:
    with Journal(run.journal) as journal, pytest.raises(ConfigError, match="is impossible"):
        TrialStream(Trials(run.store), journal, **numbers)
