"""The run directory, and the records of its trials: written at once or not at all, and read back as they were.

Invariant: a folder ``trials/<id>`` is complete. It is written under another name, forced to the disk and renamed; a
crash leaves either the whole record or nothing under that name. Any summary of a run can be recomputed from them.

    recipe.toml              the resolved recipe
    trained-families.json    the families of the split that is trained on
    journal                  what happened, in order (`rollout.journal`)
    trials/<id>/             one trial (`rollout.trial_folder`)
    metrics.jsonl            one line a step
    checkpoints/             weights and optimizer states
    scratch/                 sandboxes and Harbor's own files of running trials; nothing reads it afterwards
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lego_rl.durable import sync_folder
from lego_rl.errors import RunError
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.trial_folder import CONTENT_ERRORS, TrialFolder

_PENDING = ".pending-"
_PROBLEM_CHARS = 2_000


class UnrecordableError(Exception):
    """The record's own content cannot be written, or not be read back: it is nested too deeply, for example."""


@dataclass(frozen=True)
class RunDirectory:
    """Where everything of a run lies.

    Attributes:
        path: The folder.
    """

    path: Path

    @classmethod
    def make(cls, path: Path) -> "RunDirectory":
        """Make the folder and its parts where they do not exist. Another process may be using it: nothing is removed.

        Raises:
            RunError: The folder cannot be made.
        """
        run = cls(path)
        try:
            for folder in (run.trials, run.scratch):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the run directory {path}: {error}", "name a writable folder") from error
        return run

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.toml"

    @property
    def trained_families(self) -> Path:
        """The families of the split that is trained on, as a JSON list: the pool may be gone when a report is made."""
        return self.path / "trained-families.json"

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.path / "journal"

    @property
    def trials(self) -> Path:
        """One folder for each trial."""
        return self.path / "trials"

    @property
    def metrics(self) -> Path:
        """One JSON line for each step."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Weights and optimizer states."""
        return self.path / "checkpoints"

    @property
    def scratch(self) -> Path:
        """Files of running trials."""
        return self.path / "scratch"

    @property
    def store(self) -> "TrialStore":
        """The records of its trials."""
        return TrialStore(self.trials)


@dataclass(frozen=True)
class TrialStore:
    """The records of a run's trials.

    Attributes:
        path: The folder that holds one folder for each trial.
    """

    path: Path

    def save(self, record: TrialRecord) -> None:
        """Write a record; one of the same trial that an unfinished try left behind is replaced.

        Raises:
            RunError: The disk did not take it; there is no new folder then.
            UnrecordableError: The record cannot be kept as it is, on any disk; there is no new folder either.
        """
        target = self.path / record.spec.id
        try:
            pending = Path(tempfile.mkdtemp(prefix=_PENDING, dir=self.path))
            try:
                _write_checked(record, pending)
                _sync(pending)
                if target.exists():
                    shutil.rmtree(target)
                pending.rename(target)
                sync_folder(self.path)
            finally:
                shutil.rmtree(pending, ignore_errors=True)
        except OSError as error:
            raise RunError(
                f"cannot write {target}: {error.strerror}",
                "free disk space, then go on with the same command (train: --resume)",
            ) from error

    def discard_unfinished(self) -> None:
        """Remove what a killed process left half-written. Only whoever holds the run's journal may do so: what another
        process is writing looks the same.

        Raises:
            RunError: The disk does not let it go.
        """
        try:
            for pending in self.path.glob(f"{_PENDING}*"):
                shutil.rmtree(pending)
        except OSError as error:
            raise RunError(f"cannot remove from {self.path}: {error}", "make the run directory writable") from error

    def load(self, trial_id: str) -> TrialRecord:
        """Read a record back.

        Raises:
            RunError: There is none, it is damaged or of another format, or its files are not of one trial.
        """
        try:
            return self.folder(trial_id).read()
        except RunError as error:
            raise RunError(f"the record of trial {trial_id} cannot be read: {error.problem}", error.fix) from error

    def folder(self, trial_id: str) -> TrialFolder:
        """The files of a trial, for whoever needs only some of them."""
        return TrialFolder(self.path / trial_id, trial_id)

    def ids(self) -> list[str]:
        """The trials that have a record, sorted; `rollout.settled` says which of them count."""
        return sorted(folder.name for folder in self.path.iterdir() if not folder.name.startswith(_PENDING))


def _write_checked(record: TrialRecord, folder: Path) -> None:
    """Write, and read back: a record that a resumed run could not load would stop it every time."""
    try:
        TrialFolder(folder, record.spec.id).write(record)
        TrialFolder(folder, record.spec.id).read()
    except CONTENT_ERRORS as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        raise UnrecordableError(f"{type(error).__name__}: {error}"[:_PROBLEM_CHARS]) from error


def _sync(folder: Path) -> None:
    """Force everything but the logs to the disk, which nothing is computed from."""
    for path in folder.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)
