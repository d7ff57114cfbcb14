"""Batches of trials: bounded concurrency, retries of infrastructure faults, and resume.

Invariant: a trial is scored at most once. Its record is on the disk before the journal says so, and what the journal
says is scored is loaded, never run again. Whatever stops a batch leaves every scored trial behind and no other trace
that a resumed batch could trip over.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lego_rl.errors import ConfigError
from lego_rl.gateway.threads import in_thread
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Treatment, check_batch
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import TrialStore, UnrecordableError

STARTED, SCORED, FAULTED, CANCELLED = "trial-started", "trial-scored", "trial-faulted", "trial-cancelled"
"""Kinds of journal entries; each names the trial and which try it was."""


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


@dataclass(frozen=True)
class TrialStarted:
    """A trial is being run, for the `tries`-th time."""

    spec: TrialSpec
    tries: int


@dataclass(frozen=True)
class TrialRetried:
    """An infrastructure fault took a try, and there will be another."""

    spec: TrialSpec
    tries: int
    outcome: Outcome


@dataclass(frozen=True)
class TrialEnded:
    """A trial has its final record.

    Attributes:
        record: The record.
        done: Trials of the batch that have one, this one included.
        total: Trials of the batch.
        loaded: Whether an earlier process ran it.
    """

    record: TrialRecord
    done: int
    total: int
    loaded: bool = False


type Progress = TrialStarted | TrialRetried | TrialEnded
"""What a batch tells whoever watches it."""


def ignore(_: Progress) -> None:
    """Watches nothing."""


async def run_trials(
    specs: Sequence[TrialSpec],
    runtime: Trials,
    journal: Journal,
    *,
    concurrency: int,
    retries: int = 2,
    progress: Callable[[Progress], None] = ignore,
) -> list[TrialRecord]:
    """Run a batch of trials, or what is left of it.

    Args:
        specs: What to run; a part of it for one machine of several comes from `Shard.of`.
        runtime: Runs single trials.
        journal: Says what is already scored, and is told what happens.
        concurrency: Most trials at a time.
        retries: Further tries that a trial gets in this call after an infrastructure fault.
        progress: Is told of every event, on the event loop.

    Returns:
        One record for every specification, in their order; a trial that no try could score has a masked one.

    Raises:
        ConfigError: Two specifications are the same trial, or `concurrency` or `retries` is out of range.
        RunError: A recorded trial cannot be read, the disk is full, or `check_batch` stops the run.
    """
    if concurrency < 1 or retries < 0:
        raise ConfigError(
            f"concurrency {concurrency} with {retries} retries is impossible", "use at least 1 and at least 0"
        )
    # The journal is locked, so no other process is at work in this folder. What was left may be very many files.
    await in_thread(runtime.store.discard_unfinished)
    await in_thread(runtime.prepare)
    batch = _Batch(specs, runtime, journal, retries, progress)
    workers = [asyncio.create_task(batch.work()) for _ in range(min(concurrency, len(specs)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    records = [batch.records[spec.id] for spec in specs]
    check_batch((record.outcome.ended, record.outcome.detail) for record in records)
    return records


class _Batch:
    def __init__(
        self,
        specs: Sequence[TrialSpec],
        runtime: Trials,
        journal: Journal,
        retries: int,
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
        self._progress = progress
        self._total = len(specs)
        self._tries = Counter(str(entry.data["id"]) for entry in journal.entries if entry.kind == STARTED)
        scored = {str(entry.data["id"]) for entry in journal.entries if entry.kind == SCORED}
        for spec in specs:
            if spec.id in scored:
                self._keep(runtime.store.load(spec.id), loaded=True)
        self._waiting = iter([spec for spec in specs if spec.id not in scored])

    async def work(self) -> None:
        """Take specifications until none is left."""
        for spec in self._waiting:
            self._keep(await self._settle(spec), loaded=False)

    def _keep(self, record: TrialRecord, *, loaded: bool) -> None:
        self.records[record.spec.id] = record
        self._progress(TrialEnded(record, done=len(self.records), total=self._total, loaded=loaded))

    async def _settle(self, spec: TrialSpec) -> TrialRecord:
        """Run a trial until it is scored or its tries are used up."""
        for remaining in range(self._retries, -1, -1):
            record = await self._try(spec)
            row = FAULT_TABLE[record.outcome.ended]
            if row.treatment is not Treatment.MASKED or not row.retry:
                break
            if remaining:
                self._progress(TrialRetried(spec, record.tries, record.outcome))
        return record

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
        masked = FAULT_TABLE[outcome.ended].treatment is Treatment.MASKED
        self._journal.append(
            FAULTED if masked else SCORED,
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
            await asyncio.to_thread(store.save, record)
        except UnrecordableError as error:
            record = record.without_content(str(error))
            await asyncio.to_thread(store.save, record)
        return record
