"""Batches whose trials are functions; the real ones are integration tests."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Rewarded
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
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


REWARDS: dict[Rewarded, Reward | None] = {Rewarded.VERDICT: 1, Rewarded.ZERO: 0, Rewarded.NOTHING: None}


def record(spec: TrialSpec, ended: Ended = Ended.FINISHED) -> TrialRecord:
    reward = REWARDS[FAULT_TABLE[ended].rewarded]
    outcome = Outcome(reward, ended, None, f"{ended} of {spec.attempt}")
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


def kinds(run: RunDirectory) -> list[tuple[str, object]]:
    return [(entry.kind, entry.data["try"]) for entry in read_journal(run.journal)]
