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
from dataclasses import replace
from functools import partial
from typing import Protocol

from lego_rl.errors import ConfigError, RunError
from lego_rl.rollout.batch_check import check_batch, is_unattributed, too_many_unattributed
from lego_rl.rollout.faults import MOST_TRIES, Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import BatchStarted, Progress, TrialEnded, TrialRetried, TrialStarted, ignore
from lego_rl.rollout.settled import (
    CANCELLED,
    FAULTED,
    REOPENED,
    SCORED,
    STARTED,
    STOPPED,
    faulted_tries,
    settled_trials,
    unattributed_tries,
)
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import TrialStore, UnrecordableError
from lego_rl.threads import in_thread

_FEWEST_RETRIES = 8
LONGEST_PAUSE_SEC = 60.0
"""Most seconds between two tries of a trial, however many there are."""


class Trials(Protocol):
    """Whatever runs single trials; `rollout.trial.Runtime` is the real one."""

    @property
    def store(self) -> TrialStore:
        """Where records are kept."""
        ...

    def prepare(self) -> None:
        """Is called once, in a thread, before any trial of a batch: remove what a killed process left behind."""
        ...

    async def run(self, spec: TrialSpec) -> TrialRecord:
        """Run one trial; nothing but a cancellation may come out as an exception."""
        ...


async def run_trials(
    specs: Sequence[TrialSpec],
    runtime: Trials,
    journal: Journal,
    *,
    concurrency: int,
    retries: int = 2,
    retry_pause_sec: float = 5.0,
    progress: Callable[[Progress], None] = ignore,
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

    Returns:
        One record for every specification, in their order; a trial that no try could score has a masked one.

    Raises:
        ConfigError: Two specifications are the same trial, or a number is out of range.
        RunError: A recorded trial cannot be read, the disk is full, or `check_batch` stops the run.
    """
    _check_numbers(concurrency, retries, retry_pause_sec)
    # The journal is locked, so no other process is at work in this folder. What was left may be very many files.
    await in_thread(runtime.store.discard_unfinished)
    await in_thread(runtime.prepare)
    batch = _Batch(specs, runtime, journal, concurrency, retries, retry_pause_sec, progress)
    workers = [asyncio.create_task(batch.work()) for _ in range(min(concurrency, len(specs)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    records = [batch.records[spec.id] for spec in specs]
    batch.check(records)
    return records


def _check_numbers(concurrency: int, retries: int, retry_pause_sec: float) -> None:
    if concurrency < 1 or retries < 0:
        raise ConfigError(
            f"concurrency {concurrency} with {retries} retries is impossible", "use at least 1 and at least 0"
        )
    if retry_pause_sec < 0:
        raise ConfigError(f"a pause of {retry_pause_sec} s is impossible", "use at least 0")


def retries_of_batch(trials: int) -> int:
    """Most further tries of all trials of a batch together: where so many fault, more of the same mends nothing.

    Args:
        trials: Of the batch.
    """
    return max(_FEWEST_RETRIES, trials)


def pause_before(retry: int, first_sec: float) -> float:
    """Seconds before a try: what is short on the host is given time to come back, twice as long each time.

    Args:
        retry: Which further try it is, from 0.
        first_sec: The pause before the first.
    """
    return min(first_sec * 2.0 ** min(retry, 64), max(first_sec, LONGEST_PAUSE_SEC))


class _Batch:
    def __init__(
        self,
        specs: Sequence[TrialSpec],
        runtime: Trials,
        journal: Journal,
        concurrency: int,
        retries: int,
        retry_pause_sec: float,
        progress: Callable[[Progress], None],
    ) -> None:
        twice = [name for name, count in Counter(spec.id for spec in specs).items() if count > 1]
        if twice:
            raise ConfigError(
                f"trial {twice[0]} is in the batch {Counter(spec.id for spec in specs)[twice[0]]} times",
                "give the attempts of a group different numbers or seeds",
            )
        self.records: dict[str, TrialRecord] = {}
        self._runtime = runtime
        self._journal = journal
        self._retries = retries
        self._retry_pause_sec = retry_pause_sec
        self._progress = progress
        self._total = len(specs)
        self._retries_left = retries_of_batch(len(specs))
        self._tries = Counter(str(entry.data["id"]) for entry in journal.entries if entry.kind == STARTED)
        self._faulted = faulted_tries(journal.entries)
        self._unattributed = unattributed_tries(journal.entries)
        settled = settled_trials(journal.entries)
        final = {name for name, each in settled.items() if each.kind == SCORED or self._is_given_up(name)}
        loaded = [spec for spec in specs if spec.id in final]
        progress(BatchStarted(specs[0].label if specs else "", len(specs), len(loaded), concurrency))
        for spec in loaded:
            self._keep(runtime.store.load(spec.id), loaded=True)
        self._waiting = iter([spec for spec in specs if spec.id not in final])

    async def work(self) -> None:
        """Take specifications until none is left."""
        for spec in self._waiting:
            self._keep(await self._settle(spec), loaded=False)

    def check(self, records: Sequence[TrialRecord]) -> None:
        """Stop the run where the faults of its trials say so; what took them is to be mended, and they are run again.

        Raises:
            RunError: See `check_batch`.
        """
        unattributed = [record.spec.id for record in records if is_unattributed(record.outcome.ended)]
        has_bug = too_many_unattributed(len(unattributed), len(records))
        if has_bug and (again := [name for name in unattributed if self._unattributed[name] < MOST_TRIES]):
            self._journal.append(REOPENED, {"ids": [*again]})
        try:
            check_batch((record.outcome.ended, record.outcome.detail) for record in records)
        except RunError:
            if not has_bug:
                self._journal.append(STOPPED, {"ids": [record.spec.id for record in records]})
            raise

    def _is_given_up(self, name: str) -> bool:
        """Whether a trial has had all its tries."""
        return self._faulted[name] >= MOST_TRIES or self._unattributed[name] >= MOST_TRIES

    def _keep(self, record: TrialRecord, *, loaded: bool) -> None:
        self.records[record.spec.id] = record
        self._progress(TrialEnded(record, done=len(self.records), total=self._total, loaded=loaded))

    async def _settle(self, spec: TrialSpec) -> TrialRecord:
        """Run a trial until it is scored or its tries are used up."""
        record = await self._try(spec)
        retry = 0
        while self._may_retry(record, retry):
            self._retries_left -= 1
            pause = pause_before(retry, self._retry_pause_sec)
            self._progress(TrialRetried(spec, record.tries, record.outcome, pause))
            await asyncio.sleep(pause)
            record = await self._try(spec)
            retry += 1
        return record

    def _may_retry(self, record: TrialRecord, retried: int) -> bool:
        """Whether a trial that was retried so often gets a further try."""
        allowed = min(record.outcome.row.retries, self._retries)
        return retried < allowed and not self._is_given_up(record.spec.id) and self._retries_left > 0

    async def _try(self, spec: TrialSpec) -> TrialRecord:
        self._tries[spec.id] += 1
        tries = self._tries[spec.id]
        self._journal.append(STARTED, {"id": spec.id, "try": tries})
        self._progress(TrialStarted(spec, tries))
        try:
            record = await self._save(replace(await self._runtime.run(spec), tries=tries))
        except asyncio.CancelledError:
            self._journal.append(CANCELLED, {"id": spec.id, "try": tries, "ended": Ended.CANCELLED.value})
            raise
        outcome = record.outcome
        self._faulted[spec.id] += outcome.row.is_masked
        self._unattributed[spec.id] += is_unattributed(outcome.ended)
        self._journal.append(
            FAULTED if outcome.row.is_masked else SCORED,
            {
                "id": spec.id,
                "try": tries,
                "ended": outcome.ended.value,
                "reward": outcome.reward,
                "detail": outcome.detail,
            },
        )
        return record

    async def _save(self, record: TrialRecord) -> TrialRecord:
        """Write a record, without what the agent put into it where that makes it impossible; the one that is kept."""
        store = self._runtime.store
        try:
            await in_thread(partial(store.save, record))
        except UnrecordableError as error:
            record = record.without_content(str(error))
            await in_thread(partial(store.save, record))
        return record
