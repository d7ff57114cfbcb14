"""How a trial is put to stock Harbor, and what Harbor leaves behind.

Invariant: `Trial` is used as it is, with our agent, environment and verifier by import path and nothing of its
configuration that could carry the agent's files: no artifacts, no collect hooks, no mounts of the host but the bundle.
What is read afterwards was written by code of the host: Harbor's result, and the verifier's patch and verdict.
"""

import builtins
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig, VerifierConfig
from harbor.models.trial.result import TimingInfo, TrialResult
from harbor.trial.errors import AgentSetupTimeoutError, EnvironmentStartTimeoutError, VerifierTimeoutError
from harbor.trial.trial import Trial
from pydantic import TypeAdapter

from lego_rl.documents import read_json
from lego_rl.errors import LegoError
from lego_rl.harness.start import BUNDLE_MOUNT
from lego_rl.rollout.spec import Grading, TrialSpec
from lego_rl.sandbox.codec import patch_from_json, verdict_from_json
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.verdict import Patch, Verdict
from lego_rl.sandbox.verifier import LIMITS_FILE, PATCH_FILE, VERDICT_FILE

GRACE_SECONDS = 120.0
"""How much later than ours Harbor's own limits are: they only end a phase that hangs in Harbor itself."""

VERIFIER_GRACE_FACTOR = 4.0
"""The same for grading, whose limit is the task's own: Harbor's is this many times as long."""

_LIMIT_HITS = TypeAdapter(LimitHits)
_FORESEEN = (LegoError, OSError, EnvironmentStartTimeoutError, AgentSetupTimeoutError)
"""Kinds that say what went wrong: ours, those of the operating system, and time limits."""


@dataclass(frozen=True)
class Failure:
    """An exception of a trial.

    Attributes:
        kind: Name of its class.
        message: What it says.
        trace: Its traceback, for people.
    """

    kind: str
    message: str
    trace: str

    @property
    def is_foreseen(self) -> bool:
        """Whether it is of a kind that says what went wrong: one of ours, of the operating system, or a time limit."""
        return self.is_a(*_FORESEEN)

    def is_a(self, *kinds: type[BaseException]) -> bool:
        """Whether it is of one of these kinds, or of one derived from them that is known here."""
        known = _kinds().get(self.kind)
        return known is not None and issubclass(known, kinds)


def _kinds() -> dict[str, type[BaseException]]:
    """Harbor's result has only the name of an exception's class: the classes that a name can mean. Of ours these are
    all that there are by now, whichever environment has them."""
    plain = (kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException))
    known = (shutil.Error, EnvironmentStartTimeoutError, AgentSetupTimeoutError, VerifierTimeoutError)
    kinds = (*plain, *known, *_derived(LegoError))
    return {kind.__name__: kind for kind in kinds}


def _derived(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _derived(each)


class UnreadableGradesError(Exception):
    """What the verifier wrote cannot be read. It is no `LegoError`: nobody foresees it, and it is nobody's doing."""


@dataclass(frozen=True)
class Grades:
    """What the verifier wrote, all of it on the host.

    Attributes:
        patch: The agent's change, if the trial came to a snapshot.
        verdict: What the tests say, if it came to grading.
        limit_hits: Which of its limits the sandbox ran into.
    """

    patch: Patch | None = None
    verdict: Verdict | None = None
    limit_hits: LimitHits | None = None


def trial_config(
    spec: TrialSpec, bundle: Path, sandbox: SandboxSettings, *, scratch: Path, key: str, process_sec: float
) -> TrialConfig:
    """Harbor's configuration of a trial.

    Args:
        spec: The trial.
        bundle: The harness's files on the host.
        sandbox: What the sandbox is given.
        scratch: Folder for Harbor's own files.
        key: Under which the live objects are published.
        process_sec: Limit of the harness's process.
    """
    kept = sandbox.model_dump(mode="json", exclude_none=True)
    return TrialConfig(
        task=TaskConfig(path=spec.task.absolute()),
        trial_name=spec.id,
        trials_dir=scratch,
        environment=EnvironmentConfig(
            import_path="lego_rl.sandbox.environment:SealedEnvironment",
            kwargs={"read_only": {BUNDLE_MOUNT: str(bundle)}, "sandbox": kept},
        ),
        agent=AgentConfig(
            import_path="lego_rl.rollout.agent:HarnessAgent",
            kwargs={"trial": key},
            override_timeout_sec=process_sec + GRACE_SECONDS,
        ),
        verifier=VerifierConfig(
            import_path="lego_rl.sandbox.verifier:FreshVerifier",
            kwargs={"grading_sec": sandbox.grading_sec, "share_of_timeout": 1.0},
            disable=spec.grading is Grading.NONE,
        ),
        verifier_timeout_multiplier=VERIFIER_GRACE_FACTOR,
    )


async def run_harbor(config: TrialConfig) -> TrialResult:
    """Run a trial to its end. Exceptions within it are in the result; those of its making come out."""
    trial = await Trial.create(config)
    return await trial.run()


def read_grades(folder: Path) -> Grades:
    """Read what the verifier wrote of a trial.

    Args:
        folder: The trial's folder in Harbor's layout.

    Raises:
        UnreadableGradesError: A file is cut short or damaged: code of the host wrote it, so no agent did that.
    """
    try:
        return _read_grades(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, LegoError) as error:
        raise UnreadableGradesError(f"the verifier's files cannot be read: {type(error).__name__}: {error}") from error


def _read_grades(folder: Path) -> Grades:
    verifier = folder / "verifier"
    patch, verdict, limits = (verifier / name for name in (PATCH_FILE, VERDICT_FILE, LIMITS_FILE))
    return Grades(
        patch=patch_from_json(patch.read_text()) if patch.exists() else None,
        verdict=verdict_from_json(verdict.read_text()) if verdict.exists() else None,
        limit_hits=_LIMIT_HITS.validate_python(read_json(limits.read_text())["hits"]) if limits.exists() else None,
    )


def seconds_of(timing: TimingInfo | None) -> float:
    """Seconds of a phase; 0 for one that did not happen or did not end."""
    if timing is None or timing.started_at is None or timing.finished_at is None:
        return 0.0
    seconds: float = (timing.finished_at - timing.started_at).total_seconds()
    return seconds
