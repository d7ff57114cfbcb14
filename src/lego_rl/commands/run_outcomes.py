"""Outcomes of run directories, as `tasks.index` counts them: what the journal says counts, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from lego_rl.errors import TaskError
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.tasks.index.outcomes import Outcomes, TrialOutcome


def read_outcomes(places: Sequence[Path], label: str | None = None) -> Outcomes:
    """The outcomes of runs, together.

    Args:
        places: Run directories, and outcomes files.
        label: Only trials of this label, or below it.

    Raises:
        TaskError: A place is neither, a file is no outcomes file, or a trial has two outcomes.
        RunError: A journal or a record cannot be read, or is damaged.
    """
    found = Outcomes.joined([_outcomes(place).table for place in places])
    return found if label is None else found.labelled(label)


def run_outcomes(directory: RunDirectory) -> Outcomes:
    """The outcomes of a run; a trial without a reward, for whatever reason, is unknown.

    Raises:
        RunError: The journal or a record cannot be read, or is damaged.
    """
    return Outcomes.of(
        [_outcome(directory, trial) for trial in sorted(settled_trials(read_journal(directory.journal)))]
    )


def _outcomes(place: Path) -> Outcomes:
    if place.is_dir():
        return run_outcomes(RunDirectory(place))
    if place.is_file():
        return Outcomes.read(place)
    raise TaskError(f"there is no run at {place}", "name a run directory, or an outcomes file")


def _outcome(directory: RunDirectory, trial: str) -> TrialOutcome:
    head = directory.store.folder(trial).head
    return TrialOutcome(
        task=head.spec.task.name,
        label=head.spec.label,
        trial=trial,
        attempt=head.spec.attempt,
        reward=head.outcome.counted_reward,
        ended=head.outcome.ended.value,
    )
