"""Every row of the fault table, reached by a real fault, and what each does to the loss, its group, every denominator
and the tries. A new row without an injection fails here."""

import asyncio
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fault_injections import INJECTIONS
from fault_twins import TWINS
from faulty_trials import FaultyTrials, Injection, faulty_trials
from rollout_kit import FIX, bash

from lego_rl.evaluate.heldout import Score, score
from lego_rl.report.files import RunFiles
from lego_rl.report.summary import summarise
from lego_rl.rollout.attribution import unrecordable
from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.journal import Journal, read_journal
from lego_rl.rollout.outcome import Outcome, TrialRecord
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.settled import STARTED, settled_trials
from lego_rl.sandbox.limits import LimitReport
from lego_rl.train.advantages import EPSILON
from lego_rl.train.batch import TrainingTrial, select
from lego_rl.train.loop import as_graded
from lego_rl.train.rollout_figures import rollout_figures

SOLVED = Injection(reward=1)
FAILED = Injection([bash("sed -i 's/a - b/a * b/' calc.py"), "Mended."], reward=0)
OTHERS = {"solved once": SOLVED, "solved twice": SOLVED, "failed": FAILED}
"""The rest of the group that every trial is put into: 1, 1, 0."""


@dataclass(frozen=True)
class Ran:
    """What a batch came to."""

    trials: FaultyTrials
    records: dict[str, TrialRecord]
    tries: Counter[str]

    @property
    def others(self) -> list[TrialRecord]:
        return [self.records[part] for part in OTHERS]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    injections = {ended.value: each for ended, each in INJECTIONS.items()}
    injections |= {part: each for part, (_, each) in TWINS.items()} | OTHERS
    with pytest.MonkeyPatch.context() as monkeypatch:
        trials = faulty_trials(tmp_path_factory.mktemp("faults"), injections, monkeypatch)
        directory = trials.base.directory
        directory.recipe.write_text("[run]\nseed = 0\n")

        async def batch() -> list[TrialRecord]:
            with Journal(directory.journal) as journal:
                specs = list(trials.specs.values())
                return await run_trials(specs, trials, journal, concurrency=3, retries=9, retry_pause_sec=0)

        records = {record.spec.task.name: record for record in asyncio.run(batch())}
    started = (str(entry.data["id"]) for entry in read_journal(directory.journal) if entry.kind == STARTED)
    yield Ran(trials, records, Counter(started))


def test_every_row_has_an_injection() -> None:
    assert set(INJECTIONS) | {Ended.CANCELLED} == set(Ended)


def expected(row: Ended, limits: LimitReport | None) -> Ended:
    """Where no control group counts the forks that are refused, only the harness's error is seen of them."""
    uncounted = limits is not None and limits.processes == "rlimit"
    return Ended.HARNESS_ERROR if row is Ended.TOO_MANY_PROCESSES and uncounted else row


@pytest.mark.parametrize("row", INJECTIONS)
def test_row(ran: Ran, row: Ended) -> None:
    record = ran.records[row]
    told = f"{record.outcome.detail}\n{record.logs}"
    assert record.outcome.ended is expected(row, record.limits), told
    assert record.outcome.reward == INJECTIONS[row].reward, told
    check_consequences(ran, record)


@pytest.mark.parametrize("part", TWINS)
def test_what_looks_alike_ends_in_the_row_of_whoever_did_it(ran: Ran, part: str) -> None:
    record, (row, injection) = ran.records[part], TWINS[part]
    told = f"{record.outcome.detail}\n{record.logs}"
    assert (record.outcome.ended, record.outcome.reward) == (row, injection.reward), told
    check_consequences(ran, record)


def check_consequences(ran: Ran, record: TrialRecord) -> None:
    """Loss, group, denominator and tries, each against what the row says of it."""
    row = FAULT_TABLE[record.outcome.ended]
    group = in_one_group([*ran.others, record])
    selection = select(group, updates=1)
    rewards = [1, 1, 0] + ([record.outcome.reward] if row.in_group else [])
    mean, deviation = statistics.fmean(rewards), statistics.stdev(rewards)
    for training in group:
        rows = [each for rows in selection.updates for each in rows if each.trial_id == training.trial_id]
        trains = training.reward is not None and training.trainable_tokens > 0
        assert bool(rows) == trains
        for each in rows:
            assert each.advantage == pytest.approx((training.reward - mean) / (deviation + EPSILON))
            assert each.segment.loss_mask.any()
        assert sum(each.scale for each in rows) == pytest.approx(float(trains))
    last = group[-1]
    if not row.trained:
        assert last.segments == ()
        assert last.trial_id not in {each.trial_id for each in selection.silent}
    counted = [1, 1, 0] + ([record.outcome.reward] if row.in_denominator else [])
    records = [*ran.others, record]
    assert score(each.outcome for each in records) == Score(sum(counted), len(counted))
    assert rollout_figures(records)["rollout/counted"] == len(counted)
    assert record.tries == ran.tries[record.spec.id] == 1 + row.retries


def in_one_group(records: list[TrialRecord]) -> list[TrainingTrial]:
    return [replace(each, group_id="one") for each in as_graded(records, 0)]


def test_a_group_of_two_solved_one_failed_and_an_infrastructure_fault_has_a_mean_of_two_thirds_over_three(
    ran: Ran,
) -> None:
    records = [*ran.others, ran.records[Ended.SANDBOX_KILLED]]
    assert [each.outcome.reward for each in records] == [1, 1, 0, None]
    found = score(each.outcome for each in records)
    assert (found.rate, found.trials) == (2 / 3, 3)
    assert records[3].trajectory is not None, "it had tokens to train on"
    rows = select(in_one_group(records), updates=1).updates[0]
    deviation = statistics.stdev([1, 1, 0])
    advantages = {each.trial_id: each.advantage for each in rows}
    assert advantages == pytest.approx(
        {each.spec.id: (each.outcome.reward - 2 / 3) / (deviation + EPSILON) for each in records[:3]}
    )


def test_the_report_counts_what_the_table_counts(ran: Ran) -> None:
    outcomes = [record.outcome for record in ran.records.values()]
    counted = [outcome for outcome in outcomes if FAULT_TABLE[outcome.ended].in_denominator]
    assert 0 < len(counted) < len(outcomes)
    summary = summarise(RunFiles.open(ran.trials.base.directory.path))
    found = [summary.heldout_before, summary.unseen_before]
    assert sum(each.trials for each in found) == len(counted)
    assert sum(each.solved for each in found) == sum(outcome.reward == 1 for outcome in counted)


def test_a_further_try_samples_under_the_same_seed_and_the_journal_counts_it(ran: Ran) -> None:
    kept = ran.records[Ended.ENGINE_FAILED]
    assert kept.spec == ran.trials.specs[Ended.ENGINE_FAILED]
    assert kept.tries == ran.tries[kept.spec.id] == 3


def test_nothing_of_it_is_left(ran: Ran) -> None:
    assert list(ran.trials.base.directory.scratch.iterdir()) == []
    assert list((ran.trials.base.directory.path.parent / "state" / "runs").iterdir()) == []


async def test_a_cancelled_trial_counts_for_nothing_and_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    part = Ended.CANCELLED.value
    sleeper = Injection([FIX, bash("sleep 20"), "never asked for"], host=lambda _: reached.set())
    trials = faulty_trials(tmp_path, {part: sleeper}, monkeypatch)
    directory = trials.base.directory
    with Journal(directory.journal) as journal:
        batch = asyncio.create_task(run_trials([trials.specs[part]], trials, journal, concurrency=1))
        await asyncio.wait_for(reached.wait(), 60)
        batch.cancel()
        await asyncio.wait({batch})
        assert batch.cancelled()
        started, cancelled = journal.entries
        assert (started.data["try"], cancelled.data["ended"]) == (1, part)
        assert settled_trials(journal.entries) == {}
        row = Outcome(None, Ended.CANCELLED, None, "").row
        assert (row.is_masked, row.retries, unrecordable(row)) == (True, 0, row)
        assert list(directory.trials.iterdir()) == []
