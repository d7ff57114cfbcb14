"""The only grader: `grade` runs a task's own tests on a patch, in a sandbox that the agent never touched.

Invariant: the verdict is computed on the host, from a report that is read after every process of the grading sandbox is
dead. Only 0 and 1 exist. An exception is no verdict, and each kind says what is known: that the sandbox could not be
built, that somebody outside took it away, that the task is at fault, or only that the sandbox ended. The last one the
tested code can bring about, so nobody may take it for a fault of the host (`rollout.attribution` makes a 0 of it).

What isolation cannot block: the tested code runs inside the process that writes the report, so code that knows the
runner can rewrite the report, or a process that it forks can, until the test command ends. What it can: nothing of the
agent phase is alive or on disk here, test files and runner configuration are the task's own, whatever the tests leave
running is killed the moment their command ends, and nothing changes the report while or after it is read.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox import lack
from lego_rl.sandbox.changes import records_of
from lego_rl.sandbox.grading_run import Ended, run_tests, variables
from lego_rl.sandbox.judging import earns, statuses_of
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.loss import SandboxLostError
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.outside_kill import increase, oom_kills
from lego_rl.sandbox.ownership.modules.installed import installed_in
from lego_rl.sandbox.ownership.rules import Ownership
from lego_rl.sandbox.ownership.split import Split
from lego_rl.sandbox.pressure import Pressure
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.records import Record, read_tree
from lego_rl.sandbox.report import REPORT_FOLDER, REWARD_JSON, REWARD_TEXT
from lego_rl.sandbox.reward_file import InvalidRewardError, read_reward
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.transfer import TransferError
from lego_rl.sandbox.verdict import GradingEnd, Patch, Verdict
from lego_rl.tasks.reports import Report, TestStatus, parser_named
from lego_rl.tasks.task import Task, TestScript, TestSpec
from lego_rl.tasks.test_patch import patch_of, patched_files

GRADING_SECONDS = 600.0
START_PAUSES = (5.0, 20.0)
"""Seconds before each further try to start a grading sandbox."""
PATIENCE_SECONDS, PATIENT_PAUSE = 300.0, 20.0
"""For how long it is tried, and the pause in between, where other sandboxes may be why it does not start."""
TESTS_FOLDER = "/tests"
"""Where Harbor has a task's ``tests/``; here it cannot be written, so that tested code cannot change it."""
KEPT_REPORT_BYTES = 8 << 20
"""Largest report that is kept with the verdict."""

_LOG = logging.getLogger(__name__)


class GradingStartError(SandboxError):
    """The grading sandbox could not be built. The patch was not in it yet, so no patch can bring this about."""


class GradingHinderedError(SandboxError):
    """The grading sandbox was not built, for want of time or of room on the disk, in memory or in the kernel's tables.
    Agents of other trials can take these, so by itself this is no evidence of anything."""


async def grade(
    task: Task,
    patch: Patch,
    image: TaskImage,
    *,
    limits: Limits = DEFAULT_LIMITS,
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
        GradingStartError: The grading sandbox could not be built, however often: an infrastructure fault.
        GradingHinderedError: It could not be built for long, and other sandboxes may have brought that about.
        SandboxLostError: It was taken away, by evidence that nothing in it can produce: likewise. The class says by
            what (`sandbox.loss`).
        SandboxError: It ended and nothing tells why, or its limits could not be measured, or it could not be killed.
            The tested code may have done that.
        TaskError: The task names a parser that does not exist, or lacks one of its test files.
    """
    started = time.monotonic()
    run = await asyncio.to_thread(_plan, task, image.pristine)
    box = await _started(image, limits, task, run)
    try:
        split, changes = await _divided(box, run, task, patch, image.pristine)
        ended = await _apply_and_test(box, run, image.workdir, changes, timeout_sec)
        await box.kill()
        judged = await _judge(task.tests, box, ended.returncode)
    finally:
        await box.close()
    end = judged.ended if ended.end == "completed" else ended.end
    return Verdict(
        reward=judged.reward if end == "completed" else 0,
        tests=judged.tests,
        rolled_back={path: reason.value for path, reason in split.rolled_back.items()},
        log="\n".join([text for text in (ended.log, judged.note) if text]),
        seconds=time.monotonic() - started,
        ended=end,
        report=judged.report if len(judged.report) <= KEPT_REPORT_BYTES else b"",
        exit_status=ended.returncode,
    )


async def _divided(box: Sandbox, run: "_Run", task: Task, patch: Patch, pristine: Path) -> tuple[Split, list[Record]]:
    """What of a patch is the agent's to change, and all that is written before the tests: it and the task's files."""
    own = await asyncio.to_thread(declared, task, pristine, box)
    asked = await asyncio.to_thread(own.asked, patch)
    known = own.knowing(await installed_in(box, asked, run.env, own.module_path.said))
    split = await asyncio.to_thread(known.split, patch)
    hidden = [replace(record, path=known.links.behind(record.path)) for record in run.files]
    return split, [*records_of(split.applied), *hidden]


def declared(task: Task, pristine: Path, box: Sandbox) -> Ownership:
    """What of a work tree a task's tests make its own, as they are run in a sandbox of its image."""
    return Ownership.of(task, pristine, {**box.environment, **variables(task.test_env)})


@dataclass(frozen=True)
class _Run:
    """How a task's tests are run.

    Attributes:
        argv: The test command.
        env: Its environment variables.
        files: The task's own files in the work tree.
        mounts: Its files elsewhere.
        logs: What ``/logs`` holds.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Sequence[Record] = ()
    mounts: tuple[Mount, ...] = ()
    logs: Sequence[Record] = ()


def _plan(task: Task, pristine: Path) -> _Run:
    env = variables(task.test_env)
    match task.tests:
        case TestSpec() as spec:
            parser_named(spec.parser)
            return _Run(["sh", "-c", spec.command], env, task_files(task, spec, pristine))
        case TestScript():
            # Where the script writes its reward is the host's, and what is read is what is there when all are dead.
            verifier = Record("verifier", "symlink", REPORT_FOLDER.encode())
            tests = Mount(task.path / "tests", TESTS_FOLDER)
            return _Run(["bash", f"{TESTS_FOLDER}/test.sh"], env, mounts=(tests,), logs=(verifier,))


@dataclass(frozen=True)
class _NotApplied:
    """A patch that cannot be written, and why: no test was run, or none to its end."""

    log: str
    end: GradingEnd = "not_applied"
    returncode: int | None = None


@dataclass(frozen=True)
class _Judged:
    """What a test command left, read when everything in its sandbox was dead."""

    reward: Literal[0, 1]
    ended: GradingEnd
    tests: dict[str, TestStatus] = field(default_factory=dict)
    report: bytes = b""
    note: str = ""


async def _judge(tests: TestSpec | TestScript, box: Sandbox, returncode: int | None) -> _Judged:
    match tests:
        case TestSpec() as spec:
            report = await box.report()
            statuses = await asyncio.to_thread(statuses_of, spec, Report(report, returncode))
            return _Judged(earns(statuses), "completed" if report else "no_report", statuses, report)
        case TestScript():
            content, text = await box.report(REWARD_JSON), await box.report(REWARD_TEXT)
            try:
                reward = read_reward(content, text=text)
            except InvalidRewardError as error:
                return _Judged(0, "invalid_reward", report=content or text, note=f"[{error}; a reward is 0 or 1]")
            return _Judged(reward or 0, "no_report" if reward is None else "completed", report=content or text)


async def _started(image: TaskImage, limits: Limits, task: Task, run: _Run) -> Sandbox:
    """A fresh sandbox. The work to be graded is done and must not be lost to a machine that is busy for a moment, least
    of all where agents of other trials could keep it busy and spare this one its 0."""
    pauses, until = iter(START_PAUSES), time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await _fresh(image, limits, task, run)
        except GradingHinderedError as error:
            problem, pause = error.problem, PATIENT_PAUSE if time.monotonic() < until else None
            if pause is None:
                raise
        except GradingStartError as error:
            problem, pause = error.problem, next(pauses, None)
            if pause is None:
                raise
        _LOG.warning("%s; the next try is in %g s", problem, pause)
        await asyncio.sleep(pause)


async def _fresh(image: TaskImage, limits: Limits, task: Task, run: _Run) -> Sandbox:
    killed, pressure = oom_kills(), Pressure()
    try:
        box = await image.start(Phase.GRADING, mounts=run.mounts, limits=limits, network=task.network)
        if run.logs:
            try:
                await box.put("/logs", run.logs)
            except BaseException:
                await box.close()
                raise
        return box
    except (SandboxError, OSError) as error:
        problem, fix = (error.problem, error.fix) if isinstance(error, SandboxError) else (str(error), "")
        late = lack.is_of_time(error) and not pressure.was_low()
        hindered = late or lack.is_of_room(error) or increase(killed, oom_kills()) != 0
        problem, fix = f"the grading sandbox could not be built: {problem}", fix or "run: lego-rl check sandbox"
        if hindered:
            raise GradingHinderedError(problem, fix) from error
        raise GradingStartError(problem, fix) from error


async def _apply_and_test(
    box: Sandbox, run: _Run, workdir: str, changes: Sequence[Record], timeout_sec: float
) -> Ended | _NotApplied:
    """Write the change and the task's own files, and run the tests."""
    try:
        await box.put(workdir, changes)
        return await run_tests(box, run.argv, run.env, timeout_sec)
    except SandboxLostError:
        raise
    except SandboxError as error:
        # A patch that cannot be written, or fills the disk, is a 0. Whose doing anything else is nobody knows here.
        if not (isinstance(error, TransferError) or box.limit_hits().disk):
            raise
        return _NotApplied(f"the patch cannot be applied: {error.problem}")


def task_files(task: Task, spec: TestSpec, pristine: Path) -> list[Record]:
    """The task's own test files, from ``tests/files/`` or as ``tests/test.patch`` makes them; first what it deletes.

    Raises:
        TaskError: One that the specification names is not there, or the patch does not fit the pristine work tree.
    """
    if (patch := patch_of(task.path)) is not None:
        made = patched_files(patch, pristine)
        return [
            *(Record(file.path, "deleted") for file in made if file.content is None),
            *(
                Record(file.path, "file", file.content, 0o755 if file.executable else 0o644)
                for file in made
                if file.content is not None
            ),
        ]
    folder = task.path / "tests" / "files"
    records = list(read_tree(folder)) if folder.is_dir() else []
    present = {record.path for record in records}
    missing = [name for name in spec.test_files if name not in present]
    if missing:
        raise TaskError(f"task {task.id} lacks its test file {missing[0]}", f"add it as {folder / missing[0]}")
    return [record for record in records if record.kind != "directory"]
