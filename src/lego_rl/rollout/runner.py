"""Batches of trials: bounded concurrency, retries of infrastructure faults, and resume.

Invariant: a trial is scored at most once. Its record is on the disk before the journal says so, and what the journal
says is scored is loaded, never run again. Whatever stops a batch leaves every scored trial behind and no other trace
that a resumed batch could trip over. The one exception are unattributed trials where there are so many that they
stopped the batch: a bug took them, the journal says so, and a resumed batch runs them again, `MOST_TRIES` times in all.

A try is a trial run from its start under the same specification, seeds included, so which try is kept changes nothing
in what it was to sample. Tries are bounded: by the row of the fault table and the caller for one call of
`run_trials`, by `retries_of_batch` for all trials of the call together, and by `MOST_TRIES` for a trial over all calls.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from lego_rl.errors import ConfigError, RunError
from lego_rl.rollout.batch_check import check_batch, is_unattributed, too_many_unattributed
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import BatchStarted, Progress, TrialEnded, ignore
from lego_rl.rollout.settled import REOPENED, STOPPED
from lego_rl.rollout.settling import Settler, Trials, check_numbers, retries_of_batch
from lego_rl.rollout.spec import TrialSpec
from lego_rl.threads import in_thread


async def run_trials(
    specs: Sequence[TrialSpec],
    runtime: Trials,
    journal: Journal,
    *,
    concurrency: int,
    retries: int = 2,
    retry_pause_sec: float = 5.0,
    progress: Callable[[Progress], None] = ignore,
    may_begin: Callable[[], bool] = lambda: True,
) -> list[TrialRecord]:
    """Run a batch of trials, or what is left of it.

    Args:
        specs: What to run; a part of it for one machine of several comes from `Shard.of`.
        runtime: Runs single trials.
        journal: Says what is already scored, and is told what happens.
        concurrency: Most trials at a time.
        retries: Most further tries that a trial gets in this call; its row of the fault table may allow fewer.
        retry_pause_sec: Before the first of them; see `pause_before`.
        progress: Is told of every event, on the event loop.
        may_begin: Whether one more trial may; once it may not, those that are at work end and no other begins.

    Returns:
        One record for every specification, in their order; a trial that no try could score has a masked one. Those that
        were not begun have none.

    Raises:
        ConfigError: Two specifications are the same trial, or a number is out of range.
        RunError: A recorded trial cannot be read, the disk is full, or `check_batch` stops the run.
    """
    check_numbers(concurrency, retries, retry_pause_sec)
    # The journal is locked, so no other process is at work in this folder. What was left may be very many files.
    await in_thread(runtime.store.discard_unfinished)
    await in_thread(runtime.prepare)
    settler = Settler(runtime, journal, retries, retry_pause_sec, progress)
    batch = _Batch(specs, settler, journal, concurrency, progress, may_begin)
    workers = [asyncio.create_task(batch.work()) for _ in range(min(concurrency, len(specs)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    records = [batch.records[spec.id] for spec in specs if spec.id in batch.records]
    batch.check(records)
    return records


class _Batch:
    def __init__(
        self,
        specs: Sequence[TrialSpec],
        settler: Settler,
        journal: Journal,
        concurrency: int,
        progress: Callable[[Progress], None],
        may_begin: Callable[[], bool],
    ) -> None:
        twice = [name for name, count in Counter(spec.id for spec in specs).items() if count > 1]
        if twice:
            raise ConfigError(
                f"trial {twice[0]} is in the batch {Counter(spec.id for spec in specs)[twice[0]]} times",
                "give the attempts of a group different numbers or seeds",
            )
        self.records: dict[str, TrialRecord] = {}
        self._settler = settler
        self._journal = journal
        self._progress = progress
        self._may_begin = may_begin
        self._total = len(specs)
        settler.retries_left = retries_of_batch(len(specs))
        loaded = [spec for spec in specs if settler.is_final(spec)]
        progress(BatchStarted(specs[0].label if specs else "", len(specs), len(loaded), concurrency))
        for spec in loaded:
            self._keep(settler.load(spec), loaded=True)
        self._waiting = iter([spec for spec in specs if not settler.is_final(spec)])

    async def work(self) -> None:
        """Take specifications until none is left."""
        for spec in self._waiting:
            if not self._may_begin():
                return
            self._keep(await self._settler.settle(spec), loaded=False)

    def check(self, records: Sequence[TrialRecord]) -> None:
        """Stop the run where the faults of its trials say so; what took them is to be mended, and they are run again.

        Raises:
            RunError: See `check_batch`.
        """
        unattributed = [record.spec.id for record in records if is_unattributed(record.outcome.ended)]
        has_bug = too_many_unattributed(len(unattributed), len(records))
        if has_bug and (again := [name for name in unattributed if self._settler.may_run_again(name)]):
            self._journal.append(REOPENED, {"ids": [*again]})
        try:
            check_batch((record.outcome.ended, record.outcome.detail) for record in records)
        except RunError:
            if not has_bug:
                self._journal.append(STOPPED, {"ids": [record.spec.id for record in records]})
            raise

    def _keep(self, record: TrialRecord, *, loaded: bool) -> None:
        self.records[record.spec.id] = record
        self._progress(TrialEnded(record, done=len(self.records), total=self._total, loaded=loaded))
