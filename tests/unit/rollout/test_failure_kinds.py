"""An exception is sorted by where it was raised and of which class it was: Harbor keeps no more of it than the name."""

import shutil

import pytest
from evidence_kit import FULL, LOSSES, PATCH, ROOT, ended, failure, worked
from harbor.trial.errors import AgentSetupTimeoutError, EnvironmentStartTimeoutError, VerifierTimeoutError

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import RunError, SandboxError, TaskError, UnservedTaskError
from lego_rl.rollout import evidence
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.harbor_trial import Grades
from lego_rl.sandbox.docker.engine import DaemonError
from lego_rl.sandbox.dockerfile import NeedsBuildError
from lego_rl.sandbox.grading import GradingStartError
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.loss import Loss, LossCause, RuntimeLostError, SandboxKilledError, SandboxLostError, lost
from lego_rl.sandbox.sandbox import Completed
from lego_rl.sandbox.seal import SealError
from lego_rl.sandbox.transfer import TransferError


@pytest.mark.parametrize(
    "kind",
    [SandboxError, RunError, ClusterError, DaemonError, EnvironmentStartTimeoutError, PermissionError, shutil.Error],
)
def test_what_fails_before_the_sandbox_stands_is_its_start(kind: type[Exception]) -> None:
    assert ended(worked(began=False, sandbox_started=False), Grades(), failure(kind)) == (Ended.SANDBOX_START, None)


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (TaskError, Ended.TASK_UNUSABLE),
        (UnservedTaskError, Ended.TASK_UNUSABLE),
        (NeedsBuildError, Ended.TASK_UNUSABLE),
        (SealError, Ended.SEAL_FAILED),
    ],
)
def test_what_is_wrong_with_the_task_or_the_seal_has_a_row_of_its_own(kind: type[Exception], row: Ended) -> None:
    assert ended(worked(began=False, sandbox_started=False), Grades(), failure(kind)) == (row, None)


@pytest.mark.parametrize("kind", [SandboxError, TransferError, SandboxLostError, AgentSetupTimeoutError, OSError])
def test_what_fails_before_the_harness_is_started_is_its_set_up(kind: type[Exception]) -> None:
    assert ended(worked(began=False), Grades(), failure(kind)) == (Ended.SETUP_FAILED, None)


def test_a_host_that_is_full_when_nothing_was_begun_is_told_from_a_task_that_is_wrong() -> None:
    unbegun = worked(began=False, sandbox_started=False)
    assert ended(unbegun, Grades(), failure(OSError), FULL) == (Ended.HOST_DISK_FULL, None)
    assert ended(unbegun, Grades(), failure(TaskError), FULL) == (Ended.TASK_UNUSABLE, None)


@pytest.mark.parametrize("kind", ["KeyError", "ValueError", "SomethingOfHarbors", "object", "Exception"])
def test_what_nobody_foresaw_is_unattributed(kind: str) -> None:
    assert ended(worked(began=False), Grades(), failure(kind)) == (Ended.UNATTRIBUTED_BEFORE, None)
    assert ended(worked(), Grades(), failure(kind)) == (Ended.UNATTRIBUTED_AFTER, 0)
    assert ended(worked(), PATCH, failure(kind)) == (Ended.UNATTRIBUTED_AFTER, 0)


def test_a_harness_that_was_never_started_without_any_failure_is_unattributed() -> None:
    assert ended(worked(began=False), Grades(), None) == (Ended.UNATTRIBUTED_BEFORE, None)


@pytest.mark.parametrize("kind", [SandboxError, OSError, RunError])
def test_a_file_tree_that_cannot_be_read_out_is_the_policys(kind: type[Exception]) -> None:
    assert ended(worked(), Grades(), failure(kind)) == (Ended.NO_SNAPSHOT, 0)


def test_of_grading_only_what_the_tested_code_cannot_bring_about_is_ours() -> None:
    assert ended(worked(), PATCH, failure(GradingStartError)) == (Ended.GRADING_START, None)
    assert ended(worked(), PATCH, failure(SandboxKilledError)) == (Ended.SANDBOX_KILLED, None)
    assert ended(worked(), PATCH, failure(RuntimeLostError)) == (Ended.RUNTIME_LOST, None)
    assert ended(worked(), PATCH, failure(TaskError)) == (Ended.TASK_UNUSABLE, None)
    for kind in (SealError, SandboxError, SandboxLostError, TransferError, ClusterError, EngineError):
        assert ended(worked(), PATCH, failure(kind))[1] == 0, kind
    assert ended(worked(), PATCH, failure(SandboxError)) == (Ended.VERIFIER_CRASHED, 0)
    assert ended(worked(), Grades(), failure(DaemonError)) == (Ended.NO_SNAPSHOT, 0)
    assert ended(worked(), PATCH, failure(VerifierTimeoutError)) == (Ended.VERIFIER_TIMEOUT, 0)


@pytest.mark.parametrize("cause", LossCause)
def test_whoever_takes_a_sandbox_away_ends_it_in_one_row_whether_it_worked_was_read_or_graded(
    cause: LossCause,
) -> None:
    loss = Loss(cause, "the host saw it")
    raised = lost(loss)
    working = worked(completed=Completed(137, "", "", died=True, loss=loss))
    assert ended(working, PATCH, None) == (LOSSES[cause], None)
    for grades in (Grades(), PATCH):  # it was killed or read, or graded
        assert ended(worked(), grades, failure(type(raised))) == (LOSSES[cause], None)


def test_a_kind_that_masks_is_named_by_a_class_that_the_code_raises() -> None:
    """A class that is renamed takes its name in Harbor's record along, and one that nobody raises is no evidence."""
    sources = "".join(path.read_text() for path in (ROOT / "sandbox").rglob("*.py"))
    sources += "".join(path.read_text() for path in (ROOT / "tasks").rglob("*.py"))
    made = {type(lost(Loss(cause, ""))) for cause in LossCause}
    for kind in (*evidence._BEFORE, *evidence._AFTERWARDS):
        assert failure(kind).is_a(kind)
        assert failure(kind).is_foreseen
        assert f"raise {kind.__name__}(" in sources or kind in made


@pytest.mark.parametrize(
    "name", ["SandboxKilledErr0r", "sandboxkillederror", "builtins.OSError", "", "Mapping", "errors"]
)
def test_a_kind_that_nobody_knows_masks_nothing(name: str) -> None:
    assert not failure(name).is_a(BaseException)
    assert ended(worked(), PATCH, failure(name)) == (Ended.UNATTRIBUTED_AFTER, 0)


def test_a_policy_that_was_never_asked_has_no_zero() -> None:
    silent = worked(completed=Completed(1, "", ""))
    silent.session.requests = 0
    for problem in (None, failure(SandboxError), failure(OSError), failure(VerifierTimeoutError)):
        assert ended(silent, Grades(), problem) == (Ended.HARNESS_SILENT, None)
    assert ended(silent, Grades(), failure("KeyError")) == (Ended.UNATTRIBUTED_BEFORE, None)
    assert ended(silent, PATCH, failure(GradingStartError)) == (Ended.GRADING_START, None)
