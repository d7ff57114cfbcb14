"""What a batch of trials tells whoever watches it."""

from dataclasses import dataclass

from lego_rl.rollout.outcome import Outcome, TrialRecord
from lego_rl.rollout.spec import TrialSpec


@dataclass(frozen=True)
class BatchStarted:
    """A batch is begun, or gone on with.

    Attributes:
        label: What its trials are part of; empty for a batch of none.
        total: Trials of the batch.
        loaded: Of these, trials that an earlier process brought to an end.
        concurrency: Most trials at a time.
    """

    label: str
    total: int
    loaded: int
    concurrency: int


@dataclass(frozen=True)
class TrialStarted:
    """A trial is being run, for the `tries`-th time."""

    spec: TrialSpec
    tries: int


@dataclass(frozen=True)
class TrialRetried:
    """An infrastructure fault took a try, and after a pause there will be another."""

    spec: TrialSpec
    tries: int
    outcome: Outcome
    pause_sec: float


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


type Progress = BatchStarted | TrialStarted | TrialRetried | TrialEnded
"""What a batch tells whoever watches it."""


def ignore(_: Progress) -> None:
    """Watches nothing."""
