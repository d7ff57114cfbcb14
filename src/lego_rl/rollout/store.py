"""The run directory, and the records of its trials: written at once or not at all, and read back as they were.

Invariant: a folder ``trials/<id>`` is complete. It is written under another name, forced to the disk and renamed; a
crash leaves either the whole record or nothing under that name. Any summary of a run can be recomputed from them.

    recipe.toml              the resolved recipe
    trained-families.json    the families of the split that is trained on
    journal                  what happened, in order (`rollout.journal`)
    trials/<id>/             outcome.json   specification, outcome, seconds, accounting, limits
                             verdict.json   status of every test, where the change was graded
                             patch.json     the agent's change (`sandbox.codec`)
                             trajectory.json.bz2, tokens.npz   what the gateway wrote down (`gateway.store`)
                             logs/          text for people: tests, the harness's output; may be deleted
    metrics.jsonl            one line a step
    checkpoints/             weights and optimizer states
    scratch/                 sandboxes and Harbor's own files of running trials; nothing reads it afterwards
"""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from lego_rl.durable import sync_folder
from lego_rl.errors import LegoError, RunError
from lego_rl.gateway.store import read_trajectory, write_trajectory
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.sandbox.codec import patch_from_json, patch_to_json, verdict_from_json, verdict_to_json
from lego_rl.sandbox.limits import LimitHits, LimitReport

_PENDING = ".pending-"
_CONTENT_ERRORS = (ValueError, TypeError, KeyError, RecursionError, LegoError)
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
class _OutcomeFile:
    """What ``outcome.json`` holds, and which other parts there must be."""

    spec: TrialSpec
    outcome: Outcome
    seconds: PhaseSeconds
    accounting: Accounting
    harness_version: str
    harness_hash: str
    tries: int
    has_verdict: bool
    has_patch: bool
    has_trajectory: bool
    limits: LimitReport | None = None
    limit_hits: LimitHits | None = None


_OUTCOME = TypeAdapter(_OutcomeFile)


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
            raise RunError(f"cannot write {target}: {error.strerror}", "free disk space, then use --resume") from error

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
            RunError: There is none, or it is damaged.
        """
        folder = self.path / trial_id
        try:
            return _read(folder)
        except (OSError, *_CONTENT_ERRORS) as error:
            raise RunError(
                f"the record of trial {trial_id} cannot be read: {error}",
                f"restore {folder} from a copy, or start a new run",
            ) from error

    def ids(self) -> list[str]:
        """The trials that have a record, sorted; `rollout.settled` says which of them count."""
        return sorted(folder.name for folder in self.path.iterdir() if not folder.name.startswith(_PENDING))


def _write_checked(record: TrialRecord, folder: Path) -> None:
    """Write, and read back: a record that a resumed run could not load would stop it every time."""
    try:
        _write(record, folder)
        _read(folder)
    except _CONTENT_ERRORS as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        raise UnrecordableError(f"{type(error).__name__}: {error}"[:_PROBLEM_CHARS]) from error


def _write(record: TrialRecord, folder: Path) -> None:
    folder.chmod(0o755)
    logs = dict(record.logs)
    verdict = record.outcome.verdict
    if verdict is not None:
        logs["tests.log"] = verdict.log
        (folder / "verdict.json").write_text(verdict_to_json(replace(verdict, log="")), encoding="ascii")
    if record.patch is not None:
        (folder / "patch.json").write_text(patch_to_json(record.patch), encoding="ascii")
    if record.trajectory is not None:
        spec = record.spec
        write_trajectory(
            record.trajectory,
            folder,
            harness=spec.harness.name,
            version=record.harness_version,
            session_id=spec.id,
        )
    (folder / "logs").mkdir()
    for name, text in logs.items():
        (folder / "logs" / name).write_bytes(text.encode("utf-8", errors="backslashreplace"))
    content = _OutcomeFile(
        spec=record.spec,
        outcome=replace(record.outcome, verdict=None),
        seconds=record.seconds,
        accounting=record.accounting,
        harness_version=record.harness_version,
        harness_hash=record.harness_hash,
        tries=record.tries,
        has_verdict=verdict is not None,
        has_patch=record.patch is not None,
        has_trajectory=record.trajectory is not None,
        limits=record.limits,
        limit_hits=record.limit_hits,
    )
    _write_json(_OUTCOME, content, folder / "outcome.json")


def _read(folder: Path) -> TrialRecord:
    content = _read_json(_OUTCOME, folder / "outcome.json")
    logs = {path.name: path.read_bytes().decode("utf-8") for path in sorted((folder / "logs").glob("*"))}
    verdict = None
    if content.has_verdict:
        verdict = verdict_from_json((folder / "verdict.json").read_text(encoding="ascii"))
        verdict = replace(verdict, log=logs.pop("tests.log", ""))
    patch = patch_from_json((folder / "patch.json").read_text(encoding="ascii")) if content.has_patch else None
    return TrialRecord(
        spec=content.spec,
        outcome=replace(content.outcome, verdict=verdict),
        trajectory=read_trajectory(folder) if content.has_trajectory else None,
        seconds=content.seconds,
        accounting=content.accounting,
        patch=patch,
        logs=logs,
        harness_version=content.harness_version,
        harness_hash=content.harness_hash,
        tries=content.tries,
        limits=content.limits,
        limit_hits=content.limit_hits,
    )


def _write_json[T](adapter: TypeAdapter[T], value: T, path: Path) -> None:
    """Plain ASCII: file names that an agent chose need not be text, and must not be able to spoil a record."""
    path.write_text(json.dumps(adapter.dump_python(value, mode="json"), indent=1), encoding="ascii")


def _read_json[T](adapter: TypeAdapter[T], path: Path) -> T:
    return adapter.validate_python(json.loads(path.read_text(encoding="ascii")))


def _sync(folder: Path) -> None:
    """Force everything but the logs to the disk, which nothing is computed from."""
    for path in folder.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)
