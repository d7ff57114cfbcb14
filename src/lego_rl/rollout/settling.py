"""One trial, brought to its end: tries, pauses between them, and what the journal says of each.

Invariant: a record is on the disk before the journal says how its trial ended, and what the journal says is scored is
loaded, never run again. Whoever has trials to run, in batches (`rollout.runner`) or one after the other
(`rollout.stream`), brings them to their end here, and nobody else retries.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from lego_rl.errors import ConfigError
from lego_rl.rollout.batch_check import is_unattributed
from lego_rl.rollout.faults import MOST_TRIES, Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress, TrialRetried, TrialStarted
from lego_rl.rollout.settled import (
    CANCELLED,
    FAULTED,
    SCORED,
    STARTED,
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


def check_numbers(concurrency: int, retries: int, retry_pause_sec: float) -> None:
    """Refuse numbers that are out of range.

    Raises:
        ConfigError: One is.
    """
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


class Settler:
    """Brings trials to their end.

    Args:
        runtime: Runs single trials.
        journal: Says what is already scored, and is told what happens.
        retries: Most further tries of a trial here; its row of the fault table may allow fewer.
        retry_pause_sec: Before the first of them; see `pause_before`.
        progress: Is told of every try, on the event loop.

    Attributes:
        retries_left: Further tries that all trials together may still have.
    """

    def __init__(
        self,
        runtime: Trials,
        journal: Journal,
        retries: int,
        retry_pause_sec: float,
        progress: Callable[[Progress], None],
    ) -> None:
        self.retries_left = 0
        self._runtime = runtime
        self._journal = journal
        self._retries = retries
        self._retry_pause_sec = retry_pause_sec
        self._progress = progress
        entries = journal.entries
        self._tries = Counter(str(entry.data["id"]) for entry in entries if entry.kind == STARTED)
        self._faulted = faulted_tries(entries)
        self._unattributed = unattributed_tries(entries)
        settled = settled_trials(entries)
        self._final = {name for name, each in settled.items() if each.kind == SCORED or self._is_given_up(name)}

    def is_final(self, spec: TrialSpec) -> bool:
        """Whether an earlier process brought the trial to its end."""
        return spec.id in self._final

    def load(self, spec: TrialSpec) -> TrialRecord:
        """The record of such a trial.

        Raises:
            RunError: It cannot be read.
        """
        return self._runtime.store.load(spec.id)

    def may_run_again(self, name: str) -> bool:
        """Whether a trial that nobody is known to be at fault for has tries left."""
        return self._unattributed[name] < MOST_TRIES

    async def settle(self, spec: TrialSpec) -> TrialRecord:
        """Run a trial until it is scored or its tries are used up."""
        record = await self._try(spec)
        retry = 0
        while self._may_retry(record, retry):
            self.retries_left -= 1
            pause = pause_before(retry, self._retry_pause_sec)
            self._progress(TrialRetried(spec, record.tries, record.outcome, pause))
            await asyncio.sleep(pause)
            record = await self._try(spec)
            retry += 1
        return record

    def _is_given_up(self, name: str) -> bool:
        """Whether a trial has had all its tries."""
        return self._faulted[name] >= MOST_TRIES or self._unattributed[name] >= MOST_TRIES

    def _may_retry(self, record: TrialRecord, retried: int) -> bool:
        """Whether a trial that was retried so often gets a further try."""
        allowed = min(record.outcome.row.retries, self._retries)
        return retried < allowed and not self._is_given_up(record.spec.id) and self.retries_left > 0

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
