"""The files of one trial, and whether they belong together.

    outcome.json   format, specification, outcome, seconds, accounting, limits, and the digest of every part
    verdict.json   status of every test, where the change was graded
    patch.json     the agent's change (`sandbox.codec`)
    trajectory.json.bz2, tokens.npz   what the gateway wrote down (`gateway.store`); where a chat backend answered,
                   chat-calls.json is in the place of tokens.npz (`gateway.transcript_store`)
    logs/          text for people: tests, the harness's output; may be deleted

Invariant: what is read is what was written together, in the folder of the trial that it is about. A part that was
changed, or that is another trial's, is refused.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from lego_rl.documents import read_json
from lego_rl.errors import LegoError, RunError
from lego_rl.formats import check_format
from lego_rl.gateway.store import TOKENS_FILE, TRAJECTORY_FILE, read_text, read_trajectory, write_trajectory
from lego_rl.gateway.trajectory import Accounting, Trajectory
from lego_rl.gateway.transcript import Transcript
from lego_rl.gateway.transcript_store import CHAT_CALLS_FILE, read_transcript, write_transcript
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, TrialRecord
from lego_rl.rollout.spec import TrialSpec
from lego_rl.sandbox.codec import patch_from_json, patch_to_json, verdict_from_json, verdict_to_json
from lego_rl.sandbox.limits import LimitHits, LimitReport
from lego_rl.sandbox.verdict import Patch, Verdict

OUTCOME_FILE, VERDICT_FILE, PATCH_FILE = "outcome.json", "verdict.json", "patch.json"
FORMAT = 4
"""Of ``outcome.json``. What the digest of a specification covers is part of it, for a trial's id holds that."""

_LOGS = "logs"
_TEST_LOG = "tests.log"
CONTENT_ERRORS = (ValueError, TypeError, KeyError, RecursionError, LegoError)
"""What reading a file raises that does not hold what it should; nothing of them says anything of the machine."""


@dataclass(frozen=True)
class OutcomeFile:
    """What ``outcome.json`` holds.

    Attributes:
        format: `FORMAT`.
        spec: What was run.
        outcome: How it ended, without the verdict.
        seconds: Where the time went.
        accounting: Token counts.
        harness_version: Exact version of the harness that was run.
        harness_hash: SHA-256 of its bundle.
        tries: How many times the trial was run, this one included.
        parts: Name → SHA-256 of every other file that there must be.
        limits: What enforced the sandbox's limits.
        limit_hits: Which of them the sandbox ran into.
    """

    format: int
    spec: TrialSpec
    outcome: Outcome
    seconds: PhaseSeconds
    accounting: Accounting
    harness_version: str
    harness_hash: str
    tries: int
    parts: dict[str, str]
    limits: LimitReport | None = None
    limit_hits: LimitHits | None = None


_OUTCOME = TypeAdapter(OutcomeFile)


@dataclass(frozen=True)
class TrialFolder:
    """The files of one trial. Each is read when it is asked for.

    Attributes:
        path: The folder.
        trial_id: The trial that it has to be of; the folder has another name while it is written.
    """

    path: Path
    trial_id: str

    def write(self, record: TrialRecord) -> None:
        """Fill the folder, which is empty.

        Raises:
            OSError: The disk does not take it.
        """
        self.path.chmod(0o755)
        logs = dict(record.logs)
        verdict = record.outcome.verdict
        if verdict is not None:
            logs[_TEST_LOG] = verdict.log
            (self.path / VERDICT_FILE).write_text(verdict_to_json(replace(verdict, log="")), encoding="ascii")
        if record.patch is not None:
            (self.path / PATCH_FILE).write_text(patch_to_json(record.patch), encoding="ascii")
        self._write_captured(record)
        content = OutcomeFile(
            format=FORMAT,
            spec=record.spec,
            outcome=replace(record.outcome, verdict=None),
            seconds=record.seconds,
            accounting=record.accounting,
            harness_version=record.harness_version,
            harness_hash=record.harness_hash,
            tries=record.tries,
            parts={path.name: _digest(path) for path in sorted(self.path.iterdir())},
            limits=record.limits,
            limit_hits=record.limit_hits,
        )
        # Plain ASCII: file names that an agent chose need not be text, and must not be able to spoil a record.
        text = json.dumps(_OUTCOME.dump_python(content, mode="json"), indent=1)
        (self.path / OUTCOME_FILE).write_text(text, encoding="ascii")
        (self.path / _LOGS).mkdir()
        for name, log in logs.items():
            (self.path / _LOGS / name).write_bytes(log.encode("utf-8", errors="backslashreplace"))

    def _write_captured(self, record: TrialRecord) -> None:
        harness, version, trial = record.spec.harness.name, record.harness_version, record.spec.id
        if record.trajectory is not None:
            write_trajectory(record.trajectory, self.path, harness=harness, version=version, session_id=trial)
        if record.transcript is not None:
            write_transcript(record.transcript, self.path, harness=harness, version=version, session_id=trial)

    def read(self) -> TrialRecord:
        """Everything.

        Raises:
            RunError: A file is missing, damaged or of another format, was changed or is another trial's, or the outcome
                contradicts the verdict or the trajectory.
        """
        head, verdict, trajectory, logs = self.head, self.verdict(), self.trajectory(), self._logs()
        transcript = self.transcript()
        if verdict is not None:
            verdict = replace(verdict, log=logs.pop(_TEST_LOG, ""))
            if head.outcome.reward == 1 and verdict.reward == 0:
                raise self._contradiction(f"{OUTCOME_FILE} says reward 1, {VERDICT_FILE} 0")
        captured = trajectory or transcript
        if captured is not None and captured.accounting != head.accounting:
            raise self._contradiction(f"the counts in {OUTCOME_FILE} are not those in {TRAJECTORY_FILE}")
        return TrialRecord(
            spec=head.spec,
            outcome=replace(head.outcome, verdict=verdict),
            trajectory=trajectory,
            seconds=head.seconds,
            accounting=head.accounting,
            patch=self.patch(),
            logs=logs,
            harness_version=head.harness_version,
            harness_hash=head.harness_hash,
            tries=head.tries,
            limits=head.limits,
            limit_hits=head.limit_hits,
            transcript=transcript,
        )

    @cached_property
    def head(self) -> OutcomeFile:
        """What ``outcome.json`` holds; raises as `read` does."""
        path = self.path / OUTCOME_FILE
        with self._reading(path):
            content = read_json(path.read_text(encoding="ascii"))
            check_format(path, content.get("format") if isinstance(content, dict) else None, FORMAT)
            head = _OUTCOME.validate_python(content)
        if head.spec.id != self.trial_id:
            raise RunError(f"{self.path} holds the record of {head.spec.id}", "give the folder its name back")
        return head

    def verdict(self) -> Verdict | None:
        """What the tests said, without their log; ``None`` where the trial was not graded. Raises as `read` does."""
        if (path := self._part(VERDICT_FILE)) is None:
            return None
        with self._reading(path):
            return verdict_from_json(path.read_text(encoding="ascii"))

    def patch(self) -> Patch | None:
        """The agent's change; ``None`` where the trial did not come to a snapshot. Raises as `read` does."""
        if (path := self._part(PATCH_FILE)) is None:
            return None
        with self._reading(path):
            return patch_from_json(path.read_text(encoding="ascii"))

    def trajectory(self) -> Trajectory | None:
        """What the gateway wrote down of an engine's session; ``None`` where none came to be. Raises as `read` does."""
        if CHAT_CALLS_FILE in self.head.parts:
            return None
        parts = {self._part(name) for name in (TOKENS_FILE, TRAJECTORY_FILE)}
        if parts == {None}:
            return None
        if None in parts:
            raise self._contradiction(f"{OUTCOME_FILE} names one of {TOKENS_FILE} and {TRAJECTORY_FILE}")
        return read_trajectory(self.path)

    def transcript(self) -> Transcript | None:
        """What it wrote down of a chat backend's session; ``None`` where none came to be. Raises as `read` does."""
        if self._part(CHAT_CALLS_FILE) is None:
            return None
        if self._part(TRAJECTORY_FILE) is None:
            raise self._contradiction(f"{OUTCOME_FILE} names {CHAT_CALLS_FILE} without {TRAJECTORY_FILE}")
        return read_transcript(self.path)

    def conversations(self) -> str | None:
        """The conversations in ATIF, a JSON text; ``None`` where no session came to be. Raises as `read` does."""
        return None if self._part(TRAJECTORY_FILE) is None else read_text(self.path)

    def _part(self, name: str) -> Path | None:
        """A file that is the one that was written; ``None`` if none was."""
        if name not in self.head.parts:
            return None
        path = self.path / name
        with self._reading(path):
            same = _digest(path) == self.head.parts[name]
        if not same:
            raise self._contradiction(f"{path} is not the file that {OUTCOME_FILE} was written with")
        return path

    def _logs(self) -> dict[str, str]:
        with self._reading(self.path / _LOGS):
            return {path.name: path.read_bytes().decode("utf-8") for path in sorted((self.path / _LOGS).glob("*"))}

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except RunError:
            raise
        except (OSError, *CONTENT_ERRORS) as error:
            raise RunError(f"{path} cannot be read: {error}", self._restore) from error

    def _contradiction(self, problem: str) -> RunError:
        return RunError(problem, self._restore)

    @property
    def _restore(self) -> str:
        return f"restore {self.path} from a copy, or start a new run"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
