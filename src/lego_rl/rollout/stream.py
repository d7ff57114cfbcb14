"""Trials that come one after the other, with no batch to wait for: bounded concurrency, retries and resume.

Invariant: as for a batch (`rollout.runner`), a trial is scored at most once, and what an earlier process brought to its
end is loaded. What stops a batch is looked at by whoever puts trials together; here every trial stands for itself.
"""

import asyncio
from collections.abc import Callable

from lego_rl.errors import ConfigError
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.progress import Progress, TrialEnded, ignore
from lego_rl.rollout.settling import Settler, Trials, check_numbers, retries_of_batch
from lego_rl.rollout.spec import TrialSpec
from lego_rl.threads import in_thread


class TrialStream:
    """Runs trials as they come.

    Args:
        runtime: Runs single trials.
        journal: Says what is already scored, and is told what happens.
        concurrency: Most trials at a time; further ones wait in the order in which they came.
        retries: Most further tries of a trial; its row of the fault table may allow fewer. All trials so far together
            get no more than a batch of so many would.
        retry_pause_sec: Before the first of them.
        progress: Is told of every event, on the event loop.

    Raises:
        ConfigError: A number is out of range.
    """

    def __init__(
        self,
        runtime: Trials,
        journal: Journal,
        *,
        concurrency: int,
        retries: int = 2,
        retry_pause_sec: float = 5.0,
        progress: Callable[[Progress], None] = ignore,
    ) -> None:
        check_numbers(concurrency, retries, retry_pause_sec)
        self._runtime = runtime
        self._settler = Settler(runtime, journal, retries, retry_pause_sec, progress)
        self._places = asyncio.Semaphore(concurrency)
        self._progress = progress
        self._running: set[str] = set()
        self._ended: set[str] = set()
        self._begun = 0
        self._done = 0

    async def prepare(self) -> None:
        """Remove what a killed process left behind; once, before the first trial.

        Raises:
            RunError: The disk does not let it go.
        """
        await in_thread(self._runtime.store.discard_unfinished)
        await in_thread(self._runtime.prepare)

    async def run(self, spec: TrialSpec) -> TrialRecord:
        """Run a trial to its end, or load its record.

        Raises:
            ConfigError: The same trial is being run already.
            RunError: Its record cannot be read, or the disk is full.
        """
        if spec.id in self._running:
            raise ConfigError(f"trial {spec.id} is being run already", "give every group a name of its own")
        self._running.add(spec.id)
        self._begin()
        try:
            async with self._places:
                loaded = spec.id in self._ended or self._settler.is_final(spec)
                record = await (in_thread(lambda: self._settler.load(spec)) if loaded else self._settler.settle(spec))
        finally:
            self._running.discard(spec.id)
        self._ended.add(spec.id)
        self._done += 1
        self._progress(TrialEnded(record, done=self._done, total=self._begun, loaded=loaded))
        return record

    def _begin(self) -> None:
        """One trial more, which may bring a further try with it."""
        allowed = retries_of_batch(self._begun + 1) - (retries_of_batch(self._begun) if self._begun else 0)
        self._begun += 1
        self._settler.retries_left += allowed
