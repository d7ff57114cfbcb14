"""Outcomes of run directories, as `tasks.index` counts them: what the journal says counts, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from lego_rl.commands.sampled_policy import trained_policy
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import TaskError
from lego_rl.rollout.choice import Choice
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import OutcomeFile
from lego_rl.tasks.index.outcomes import Outcomes, TrialOutcome


def read_outcomes(places: Sequence[Path]) -> Outcomes:
    """The outcomes of runs, together.

    Args:
        places: Run directories, and outcomes files.

    Raises:
        TaskError: A place is neither, a file is no outcomes file, or a trial has two outcomes.
        RunError: A journal or a record cannot be read, or is damaged.
        ConfigError: The recipe of a run is damaged.
    """
    return Outcomes.joined([_outcomes(place).table for place in places])


def run_outcomes(directory: RunDirectory) -> Outcomes:
    """The outcomes of a run; a trial without a reward, for whatever reason, is unknown.

    Raises:
        RunError: The journal or a record cannot be read, or is damaged.
    """
    trials = sorted(settled_trials(read_journal(directory.journal)))
    choice = Choice.read(directory)
    recipe = read(Recipe, directory.recipe) if choice is None and directory.recipe.is_file() else None
    return Outcomes.of([_outcome(directory.store.folder(trial).head, trial, choice or recipe) for trial in trials])


def _outcomes(place: Path) -> Outcomes:
    if place.is_dir():
        return run_outcomes(RunDirectory(place))
    if place.is_file():
        return Outcomes.read(place)
    raise TaskError(f"there is no run at {place}", "name a run directory, or an outcomes file")


def _outcome(head: OutcomeFile, trial: str, run: Choice | Recipe | None) -> TrialOutcome:
    policy, harness = "unknown", f"{head.spec.harness.name} {head.harness_version}".rstrip()
    if isinstance(run, Choice):
        policy, harness = run.policy, run.harness
    elif isinstance(run, Recipe):
        policy = trained_policy(run, head.spec.temperature)
    return TrialOutcome(
        task=head.spec.task.name,
        policy=policy,
        harness=harness,
        label=head.spec.label,
        attempt=head.spec.attempt,
        seed=head.spec.seed,
        trial=trial,
        reward=head.outcome.counted_reward,
        ended=head.outcome.ended.value,
        content_digest=head.spec.content_digest,
    )
