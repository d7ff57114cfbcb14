"""One trial, from its specification to its record.

Invariant: whatever happens in a trial ends in a row of the fault table. Nothing but a cancellation comes out of
`run_trial` as an exception once it has begun, and whatever comes out, the session is closed and no process is left.
"""

import asyncio
import logging
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from harbor.models.trial.result import TrialResult

from lego_rl.errors import ConfigError, TaskError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call_log import CALL_LOG
from lego_rl.gateway.server import AnyGateway
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.rollout.agent import LiveTrial
from lego_rl.rollout.evidence import Inspection, may_be_short
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.harbor_trial import (
    Failure,
    Grades,
    UnreadableGradesError,
    read_grades,
    run_harbor,
    trial_config,
)
from lego_rl.rollout.live_registry import published
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.recording import record_of, unforeseen_record
from lego_rl.rollout.shortage import Reserves, host_shortage
from lego_rl.rollout.spec import TrialSpec
from lego_rl.rollout.store import RunDirectory, TrialStore
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.held import Held
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from lego_rl.tasks.task import Task
from lego_rl.tasks.usable import check_usable

_log = logging.getLogger(__name__)


class Scratch(StrEnum):
    """What becomes of Harbor's own files of a trial."""

    DELETE = "delete"
    KEEP = "keep"
    """For finding out what went wrong; a later try of the same trial replaces them."""


@dataclass(frozen=True)
class Runtime:
    """Everything that the trials of a run share.

    Attributes:
        gateway: Serves the policy.
        harness: The adapter, with the recipe's options.
        bundle: The installed harness.
        directory: The run's folder.
        sandbox: What every sandbox is given.
        model: Model name that the harness sends.
        scratch: What becomes of Harbor's own files.
        reserves: With how little the host counts as having run out.
        handovers: Trial id → what it begins with beside its task.
        step_sec: How long an engine that left a call unanswered may take for its next step before it counts as hanging.
    """

    gateway: AnyGateway
    harness: Harness
    bundle: HarnessBundle
    directory: RunDirectory
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    model: str = "policy"
    scratch: Scratch = Scratch.DELETE
    reserves: Reserves = field(default_factory=Reserves)
    step_sec: float = 60.0
    handovers: Mapping[str, Handover] = field(default_factory=dict)

    @property
    def store(self) -> TrialStore:
        """Where records are kept."""
        return self.directory.store

    @property
    def state(self) -> State:
        """Where sandboxes keep their files."""
        return state_of(self.sandbox)

    def prepare(self) -> None:
        """Remove what sandboxes whose owner was killed left behind, and what trials of this run did."""
        provider_of(self.sandbox).reap()
        if self.scratch is Scratch.DELETE:
            for left in self.directory.scratch.iterdir():
                shutil.rmtree(left, ignore_errors=True)

    async def run(self, spec: TrialSpec) -> TrialRecord:
        """Run one trial; see `run_trial`."""
        return await run_trial(spec, self)


async def run_trial(spec: TrialSpec, runtime: Runtime) -> TrialRecord:
    """Run one trial.

    Args:
        spec: What to run.
        runtime: What it shares with the others.

    Raises:
        ConfigError: The runtime holds another harness than the specification names.
    """
    if spec.harness.name != runtime.bundle.name:
        raise ConfigError(
            f"trial {spec.id} is for {spec.harness.name}, the runtime has {runtime.bundle.name}",
            "make one runtime for each harness",
        )
    started = time.perf_counter()
    folder = runtime.directory.scratch / spec.id
    live = LiveTrial(
        gateway=runtime.gateway,
        session=runtime.gateway.open(
            budget_of(spec), temperature=spec.temperature, seed=spec.seed, log=folder / CALL_LOG
        ),
        harness=runtime.harness,
        bundle=runtime.bundle,
        model=runtime.model,
        handover=runtime.handovers.get(spec.id),
    )
    try:
        result, failure = await _harbor(spec, runtime, live, folder)
        try:
            grades, failure = await asyncio.to_thread(grades_of, folder, failure)  # a patch may be large
            inspection, failure = await _inspect(runtime, live, grades, failure)
            return record_of(spec, live, result, grades, failure, inspection, started)
        except Exception as error:  # noqa: BLE001  # As in `_harbor`: it becomes a row, and its traceback is kept.
            return unforeseen_record(spec, live, _beside(None, error), time.perf_counter() - started)
    finally:
        with _logged():
            await live.close()
        if runtime.scratch is Scratch.DELETE:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def budget_of(spec: TrialSpec) -> Budget:
    """What a trial's session may spend: the specification's budget, and no more time than the task gives its agent."""
    try:
        task_sec = Task.load(spec.task).agent_timeout_sec
    except (TaskError, OSError):  # the trial itself meets it again, and ends in the row that it belongs to
        return spec.budget
    return replace(spec.budget, wall_clock_sec=min(spec.budget.wall_clock_sec, task_sec))


async def _harbor(
    spec: TrialSpec, runtime: Runtime, live: LiveTrial, folder: Path
) -> tuple[TrialResult | None, Failure | None]:
    """Run the trial in Harbor; what failed, wherever it did."""
    try:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        await asyncio.to_thread(_check, spec.task)
        with published(live) as key:
            config = trial_config(
                spec,
                runtime.bundle.path,
                runtime.sandbox,
                scratch=folder.parent,
                key=key,
                process_sec=live.process_sec,
            )
            try:
                result = await run_harbor(config)
            finally:
                await live.close()
    # Everything: whatever Harbor or a task raises is one trial's. It is not hidden, but becomes a row of the fault
    # table, with its traceback in the record; one that nobody foresaw is unattributed, and a few of those stop the run.
    except Exception as error:  # noqa: BLE001
        return None, Failure(type(error).__name__, str(error), traceback.format_exc())
    info = result.exception_info
    if info is None:
        return result, None
    return result, Failure(info.exception_type, info.exception_message, info.exception_traceback)


def _check(folder: Path) -> None:
    """Raise what `budget_of` passed over, and what Harbor would refuse in kinds of its own."""
    check_usable(Task.load(folder))


async def _inspect(
    runtime: Runtime, live: LiveTrial, grades: Grades, failure: Failure | None
) -> tuple[Inspection, Failure | None]:
    """Ask the host what it lacks. Sandbox and session are closed by now: what is short is short without them.

    Returns:
        What was found, and what failed; an error of the inspection is no evidence of anything.
    """
    shortage, silent = None, False
    try:
        if may_be_short(live, grades, failure):
            folders = (runtime.state.root, runtime.directory.path)
            held = Held(runtime.state, (runtime.directory.scratch,))
            shortage = await asyncio.to_thread(host_shortage, folders, held, live.allowed, runtime.reserves)
        silent = live.session.unanswered and await runtime.gateway.engine_hangs(runtime.step_sec)
    except Exception as error:  # noqa: BLE001  # As in `_harbor`.
        return Inspection(shortage, silent), _beside(failure, error)
    return Inspection(shortage, silent), failure


def grades_of(folder: Path, failure: Failure | None) -> tuple[Grades, Failure | None]:
    """What the verifier wrote; where that cannot be read, nothing, and a failure that says so beside the trial's own.

    Args:
        folder: The trial's folder in Harbor's layout.
        failure: The trial's own.
    """
    try:
        return read_grades(folder), failure
    except UnreadableGradesError as error:
        return Grades(), _beside(failure, error)


def _beside(failure: Failure | None, error: Exception) -> Failure:
    """An error that came after a failure, if there was one; called where the error is handled."""
    before = f"{failure.kind}: {failure.message}; " if failure is not None else ""
    return Failure(type(error).__name__, f"{before}{error}", traceback.format_exc())


@contextmanager
def _logged() -> Iterator[None]:
    """What fails while a trial is put away is logged: it must not take its record with it."""
    try:
        yield
    except Exception:  # noqa: BLE001  # Whatever it is: it is logged.
        _log.exception("a trial could not be put away")
