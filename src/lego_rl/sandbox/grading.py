"""The only grader: `grade` runs a task's own tests on a patch, in a sandbox that the agent never touched.

Invariant: the verdict is computed on the host, from a report that is read after every process of the grading sandbox is
dead. Only 0 and 1 exist. What the patch makes go wrong is a 0; only a sandbox that cannot be built raises.

What isolation cannot block: the tested code runs inside the process that writes the report, so code that knows the
runner can rewrite the report while it lives, and a process that it leaves behind can until it is killed, which is up to
half a second after the test command has ended. What it can: nothing of the agent phase is alive or on disk here, test
files and runner configuration are the task's own, and nothing changes the report while or after it is read.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.loss import Loss, LossCause, SandboxLostError
from lego_rl.sandbox.ownership import Ownership
from lego_rl.sandbox.records import Record, read_tree
from lego_rl.sandbox.report import REPORT_FOLDER, REPORT_NAME
from lego_rl.sandbox.sandbox import Completed, Phase, Sandbox, TaskImage
from lego_rl.sandbox.transfer import TransferError
from lego_rl.sandbox.verdict import Change, GradingEnd, Patch, Verdict
from lego_rl.tasks.reports import TestStatus, parser_named
from lego_rl.tasks.task import Task

GRADING_SECONDS = 600.0
GRADING_ENVIRONMENT = {
    "LEGO_REPORT": f"{REPORT_FOLDER}/{REPORT_NAME}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "CI": "1",
}


class GradingStartError(SandboxError):
    """The grading sandbox could not be built. The patch was not in it yet, so no patch can bring this about."""


class GradingKilledError(SandboxError):
    """Somebody outside killed the grading sandbox, by evidence that nothing in it can produce (`sandbox.loss`)."""


class GradingRuntimeError(SandboxError):
    """What ran the grading sandbox is gone, by evidence that nothing in it can produce (`sandbox.loss`)."""


_LOST = {LossCause.KILLED: GradingKilledError, LossCause.RUNTIME: GradingRuntimeError}


async def grade(
    task: Task,
    patch: Patch,
    image: TaskImage,
    *,
    limits: Limits | None = None,
    timeout_sec: float = GRADING_SECONDS,
) -> Verdict:
    """Grade `patch`.

    Args:
        task: The task; its ``tests/`` are read from the host.
        patch: The agent's change.
        image: What the agent phase started from.
        limits: Limits of the grading sandbox.
        timeout_sec: Seconds for the test command; a command that takes longer passed nothing.

    Raises:
        GradingStartError: The grading sandbox could not be built: an infrastructure fault.
        GradingKilledError: Somebody outside killed it: likewise.
        GradingRuntimeError: What ran it is gone: likewise.
        SandboxError: The grading sandbox ended by itself. The tested code may have done that: it is no fault of ours.
        TaskError: The task names a parser that does not exist, or lacks one of its test files.
    """
    started = time.monotonic()
    parse = parser_named(task.tests.parser)
    own_files = await asyncio.to_thread(task_files, task)
    applied, rolled_back = await asyncio.to_thread(Ownership.of(task.tests, image.pristine).split, patch)
    box = await _fresh(image, limits)
    try:
        ended, log = await _apply_and_test(
            box, task, image.workdir, [*_deletions_first(applied), *own_files], timeout_sec
        )
        await box.kill()
        report = await box.report()
    finally:
        await box.close()
    wanted = (*task.tests.fail_to_pass, *task.tests.pass_to_pass)
    tests: dict[str, TestStatus] = await asyncio.to_thread(parse, report, wanted)
    if ended == "completed" and not report:
        ended = "no_report"
    return Verdict(
        reward=1 if ended == "completed" and all(tests[test] == "passed" for test in wanted) else 0,
        tests=tests,
        rolled_back=rolled_back,
        log=log,
        seconds=time.monotonic() - started,
        ended=ended,
    )


async def _fresh(image: TaskImage, limits: Limits | None) -> Sandbox:
    try:
        return await image.start(Phase.GRADING, limits=limits)
    except (SandboxError, OSError) as error:
        problem, fix = (error.problem, error.fix) if isinstance(error, SandboxError) else (str(error), "")
        raise GradingStartError(
            f"the grading sandbox could not be built: {problem}", fix or "run: lego-rl check sandbox"
        ) from error


async def _apply_and_test(
    box: Sandbox, task: Task, workdir: str, changes: Sequence[Record], timeout_sec: float
) -> tuple[GradingEnd, str]:
    """Write the change and the task's own files, run the tests; how that ended and what they printed."""
    try:
        await box.put(workdir, changes)
        done = await box.exec(["sh", "-c", task.tests.command], env=GRADING_ENVIRONMENT, timeout_sec=timeout_sec)
        if done.died and box.limit_hits().unmeasured:
            raise SandboxError(
                "the grading sandbox was killed because its limits could not be measured",
                "read the log of this run for what could not be measured",
            )
    except SandboxLostError as error:
        raise _lost(error.loss) from error
    except SandboxError as error:
        # A patch that cannot be written, or fills the disk, is the policy's; anything else is ours.
        if not (isinstance(error, TransferError) or box.limit_hits().disk):
            raise
        return "not_applied", f"the patch cannot be applied: {error.problem}"
    if done.loss is not None:
        raise _lost(done.loss)
    return _end(done), _log(done, timeout_sec)


def _lost(loss: Loss) -> SandboxError:
    return _LOST[loss.cause](
        f"the grading sandbox was lost: {loss.found}", "look for what ends processes or daemons here"
    )


def task_files(task: Task) -> list[Record]:
    """The task's own test files, from ``tests/files/``.

    Raises:
        TaskError: One that the specification names is not there.
    """
    folder = task.path / "tests" / "files"
    records = list(read_tree(folder)) if folder.is_dir() else []
    present = {record.path for record in records}
    missing = [name for name in task.tests.test_files if name not in present]
    if missing:
        raise TaskError(f"task {task.id} lacks its test file {missing[0]}", f"add it as {folder / missing[0]}")
    return [record for record in records if record.kind != "directory"]


def _deletions_first(changes: Sequence[Change]) -> Iterator[Record]:
    for change in sorted(changes, key=lambda change: change.kind != "deleted"):
        yield Record(change.path, change.kind, change.content, 0o755 if change.executable else 0o644)


def _end(done: Completed) -> GradingEnd:
    if done.timed_out:
        return "timed_out"
    return "died" if done.died else "completed"


def _log(done: Completed, timeout: float) -> str:
    notes = [f"[the test command was killed after {timeout:.0f} s]"] if done.timed_out else []
    notes += ["[the grading sandbox was killed for a limit]"] if done.died else []
    return "\n".join([text for text in (done.stdout, done.stderr) if text] + notes)
