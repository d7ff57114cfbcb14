"""Reads what a report needs of a run directory: no token arrays, so that a thousand trials are read in a second."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lego_rl.documents import read_json, read_toml
from lego_rl.errors import RunError
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.journal import Entry, read_journal
from lego_rl.rollout.labels import TRAIN, train_label
from lego_rl.rollout.metrics_file import Row, checkpoints_in, finished_rows
from lego_rl.rollout.outcome import Outcome, PhaseSeconds
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import TrialFolder
from lego_rl.sandbox.verdict import Patch, Verdict


@dataclass(frozen=True)
class Trial:
    """A trial without its tokens and messages, as ``outcome.json`` holds it."""

    spec: TrialSpec
    outcome: Outcome
    seconds: PhaseSeconds
    accounting: Accounting
    harness_version: str = ""

    @property
    def task(self) -> str:
        """The task's id."""
        return self.spec.task.name


_FAMILIES = TypeAdapter(frozenset[str])


@dataclass(frozen=True)
class RunFiles:
    """A run directory, read when it is asked.

    Attributes:
        directory: Where everything lies.
    """

    directory: RunDirectory

    @classmethod
    def open(cls, path: Path) -> "RunFiles":
        """Open a run directory.

        Raises:
            RunError: It is none.
        """
        directory = RunDirectory(path)
        if not directory.recipe.is_file() or not directory.trials.is_dir():
            raise RunError(
                f"{path} is not a run directory: it has no recipe.toml and trials/", "name a folder below runs/"
            )
        return cls(directory)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """The resolved recipe, as plain data.

        Raises:
            RunError: It is not TOML.
        """
        try:
            return read_toml(self.directory.recipe.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {self.directory.recipe}: {error}", "restore the file from a copy") from error

    @cached_property
    def trained_families(self) -> frozenset[str]:
        """The families of the split that is trained on; of a run that did not write them down, those of its trials.

        Raises:
            RunError: The file, or where there is none the journal or a record, is damaged.
        """
        path = self.directory.trained_families
        if not path.is_file():
            return frozenset(trial.spec.family for trial in self.trials if trial.spec.label.startswith(TRAIN))
        try:
            return _FAMILIES.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise RunError(f"cannot read {path}: {error}", "restore the file from a copy") from error

    @cached_property
    def pearson_gate(self) -> float | None:
        """Correlation of log-probs below which the fidelity gate stops the run; ``None`` where its recipe names none.

        Raises:
            RunError: The recipe is not TOML.
        """
        gate: float | None = self.recipe.get("train", {}).get("gate", {}).get("min_pearson_logprobs")
        return gate

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial that the journal counts, sorted by id.

        Raises:
            RunError: The journal or a record is damaged, or the journal lacks trials of a finished step.
        """
        trials = tuple(self._trial(trial_id) for trial_id in sorted(settled_trials(self.journal)))
        tried = Counter(trial.spec.label for trial in trials)
        for row in self.rows:
            step = row["step"]
            wanted = row.get("rollout/trials")
            if isinstance(step, int) and wanted is not None and tried[train_label(step)] != wanted:
                raise RunError(
                    f"{self.directory.journal} knows {tried[train_label(step)]} of {wanted} trials of step {step}",
                    "restore the file from a copy",
                )
        return trials

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The metrics of every finished step. A kill between a step's row and its checkpoint leaves a row too many: a
        resumed run does that step again."""
        checkpoints = checkpoints_in(self.directory.checkpoints)
        return tuple(finished_rows(self.directory.metrics, checkpoints[-1][0] if checkpoints else 0))

    @cached_property
    def journal(self) -> tuple[Entry, ...]:
        """What happened, in order; empty where nothing has.

        Raises:
            RunError: It is damaged, or missing though there are trials.
        """
        if not self.directory.journal.exists() and not any(self.directory.trials.iterdir()):
            return ()
        return read_journal(self.directory.journal)

    def verdict(self, trial: Trial) -> Verdict | None:
        """What the tests said, without their log; ``None`` where the trial was not graded.

        Raises:
            RunError: The file is damaged or another trial's.
        """
        return self._folder(trial).verdict()

    def patch(self, trial: Trial) -> Patch | None:
        """The agent's change; ``None`` where the trial did not come to a snapshot.

        Raises:
            RunError: The file is damaged or another trial's.
        """
        return self._folder(trial).patch()

    def document(self, trial: Trial) -> dict[str, Any] | None:
        """The conversation in ATIF; ``None`` where no session came to be.

        Raises:
            RunError: The file is damaged or another trial's.
        """
        text = self._folder(trial).conversations()
        if text is None:
            return None
        try:
            document: dict[str, Any] = read_json(text)
        except ValueError as error:
            raise RunError(
                f"the conversation of {trial.spec.id} is no JSON: {error}", "restore the run from a copy"
            ) from error
        return document

    def _folder(self, trial: Trial) -> TrialFolder:
        return self.directory.store.folder(trial.spec.id)

    def _trial(self, trial_id: str) -> Trial:
        head = self.directory.store.folder(trial_id).head
        return Trial(head.spec, head.outcome, head.seconds, head.accounting, head.harness_version)
