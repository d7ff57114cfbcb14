"""What an evaluation reads of a trial: no tokens and no messages, so that thousands are read in seconds.

Invariant: which trials there are is what the run's journal says, and what a trial counts for is the fault table's word.
A trial without a reward is in no denominator; it is launched, and its fault is counted by its row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import RunError
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.outcome import Reward
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import OutcomeFile

WORKERS = "workers"
"""Where a run on verl keeps one run directory for each agent-loop worker."""


@dataclass(frozen=True)
class EvaluatedTrial:
    """One trial.

    Attributes:
        id: The trial's.
        label: What it was part of.
        task: Name of the task directory.
        group: The task's repository, or the family of a made task.
        attempt: Number of the trial among those of its task.
        reward: 0 or 1; ``None`` where it is in no denominator.
        ended: The row of the fault table.
        detail: What happened, for people.
        turns: Answered model calls.
        sampled: Tokens sampled over all of them.
        seconds: Wall-clock, from its start to its record.
        content_digest: Of what the task held; ``None`` where nobody looked.
    """

    id: str
    label: str
    task: str
    group: str
    attempt: int
    reward: Reward | None
    ended: Ended
    detail: str
    turns: int
    sampled: int
    seconds: float
    content_digest: str | None = None

    @classmethod
    def of(cls, trial: str, head: OutcomeFile) -> "EvaluatedTrial":
        """What ``outcome.json`` says."""
        return cls(
            id=trial,
            label=head.spec.label,
            task=head.spec.task.name,
            group=head.spec.family,
            attempt=head.spec.attempt,
            reward=head.outcome.counted_reward,
            ended=head.outcome.ended,
            detail=head.outcome.detail,
            turns=head.accounting.calls,
            sampled=head.accounting.sampled_tokens,
            seconds=head.seconds.total,
            content_digest=head.spec.content_digest,
        )


def run_directories(path: Path) -> list[RunDirectory]:
    """The folders that hold the trials of a run: its own, or one of each worker of a run on verl.

    Raises:
        RunError: It is no run.
    """
    own = RunDirectory(path)
    workers = sorted(folder for folder in (path / WORKERS).glob("*") if (folder / "journal").is_file())
    found = [each for each in (own, *map(RunDirectory, workers)) if each.journal.is_file()]
    if not found:
        raise RunError(f"{path} holds no trials: it has no journal", "name a folder below runs/")
    return found


def read_trials(path: Path) -> list[EvaluatedTrial]:
    """Every trial that a run's journal counts, in the order of their ids.

    Raises:
        RunError: It is no run, or its journal or a record is damaged.
    """
    return sorted((trial for directory in run_directories(path) for trial in _trials(directory)), key=lambda t: t.id)


def _trials(directory: RunDirectory) -> Iterator[EvaluatedTrial]:
    for name in settled_trials(read_journal(directory.journal)):
        yield EvaluatedTrial.of(name, directory.store.folder(name).head)
