"""A harness at work, as an agent of stock Harbor.

Invariant: when the agent phase is over, however it ended, every process in the sandbox is dead and the session is
closed; what is known of the phase was observed on the host. What the harness prints is kept for people only.

Harbor makes the agent by import path (``lego_rl.rollout.agent:HarnessAgent``) and hands it the key of its trial.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, override

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from lego_rl.errors import CaptureError, SandboxError
from lego_rl.gateway.server import AnyGateway, Listener
from lego_rl.gateway.session import AnySession
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.gateway.transcript import Captured, Transcript
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.harness.start import PORT, place, start
from lego_rl.rollout.handover import Handover
from lego_rl.rollout.live_registry import reach
from lego_rl.sandbox.changes import records_of
from lego_rl.sandbox.environment import SealedEnvironment
from lego_rl.sandbox.limits import LimitReport, Limits
from lego_rl.sandbox.sandbox import Completed, Sandbox
from lego_rl.sandbox.transfer import TransferError

AROUND_THE_SESSION_SECONDS = 15.0
"""How much longer than its session a harness may live: the gateway's clock starts with the first request, and once it
is up the next one gets a last answer, by which a harness ends cleanly. Only one that does not come back is killed."""

LOG_CHARS = 64 * 1024
"""Kept of the end of each output stream of a harness."""


@dataclass
class LiveTrial:
    """One trial's live objects, and what the host observes of its agent phase.

    Attributes:
        gateway: Serves the session.
        session: The trial's conversations.
        harness: The adapter.
        bundle: The installed harness.
        model: Model name that the harness sends.
        handover: What the trial begins with beside its task.
        sandbox_started: Whether a sandbox stood in which the harness could be set up.
        limits: What enforces the sandbox's limits.
        allowed: The limits themselves.
        began: Whether the harness was started.
        completed: How the harness ended.
        captured: What the session captured, once it is closed.
        capture_error: Why nothing of it can be trusted.
        gateway_lost: Why nobody could reach the session any more, if that was so.
    """

    gateway: AnyGateway
    session: AnySession
    harness: Harness
    bundle: HarnessBundle
    model: str
    handover: Handover | None = None
    sandbox_started: bool = False
    limits: LimitReport | None = None
    allowed: Limits = field(default_factory=Limits)
    began: bool = False
    completed: Completed | None = None
    captured: Captured | None = None
    capture_error: CaptureError | None = None
    gateway_lost: OSError | None = None
    _listener: Listener | None = field(default=None, repr=False)
    _closed: bool = field(default=False, repr=False)

    @property
    def trajectory(self) -> Trajectory | None:
        """What was captured of an engine's session."""
        return self.captured if isinstance(self.captured, Trajectory) else None

    @property
    def transcript(self) -> Transcript | None:
        """What was captured of a chat backend's session."""
        return self.captured if isinstance(self.captured, Transcript) else None

    @property
    def process_sec(self) -> float:
        """Limit of the harness's process."""
        return self.session.budget.wall_clock_sec + AROUND_THE_SESSION_SECONDS

    async def listen(self, environment: SealedEnvironment) -> None:
        """Make the session reachable from inside the sandbox, and from nowhere else."""
        self._listener = await self.gateway.serve(await environment.listen(PORT), self.session)

    async def close(self) -> None:
        """Hang up and take what the session captured. Calling it again does nothing, whatever came of it."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._listener is not None:
                self.gateway_lost = self._listener.lost
                await self._listener.close()
        finally:
            try:
                self.captured = await self.gateway.close(self.session)
            except CaptureError as error:
                self.capture_error = error

    def logs(self) -> dict[str, str]:
        """The end of what the harness printed."""
        if self.completed is None:
            return {}
        return {
            "harness.stdout": self.completed.stdout[-LOG_CHARS:],
            "harness.stderr": self.completed.stderr[-LOG_CHARS:],
        }


class HarnessAgent(BaseAgent):  # type: ignore[misc]  # Harbor has no types
    """Runs an unmodified harness headless in the sandbox.

    Args:
        trial: Key under which the trial's `LiveTrial` is published.
    """

    def __init__(self, *args: Any, trial: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._live = reach(trial, LiveTrial)

    @staticmethod
    @override
    def name() -> str:
        return "lego-rl"

    @override
    def version(self) -> str:
        return self._live.bundle.version

    @override
    async def setup(self, environment: BaseEnvironment) -> None:
        self._live.sandbox_started = True
        sandbox = _sealed(environment)
        self._live.limits = sandbox.limit_report
        self._live.allowed = sandbox.limits
        await self._live.listen(sandbox)

    @override
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        # Were it unset, Harbor would look for usage in a file that the agent can write.
        context.model_usage = {}
        sandbox = _sealed(environment)
        try:
            await self._launch(instruction, sandbox)
        finally:
            try:
                await self._live.close()
            finally:
                await sandbox.kill()
        _fill(context, self._live.captured)

    async def _launch(self, instruction: str, environment: SealedEnvironment) -> None:
        live = self._live
        sandbox, session = environment.sandbox, live.session
        if live.handover is not None:
            instruction = await _taken_over(live.handover, instruction, sandbox)
        launch = await place(
            live.harness, sandbox, instruction, session=session.path, budget=session.budget, model=live.model
        )
        live.began = True
        live.completed = await start(launch, sandbox, timeout_sec=live.process_sec)


async def _taken_over(handover: Handover, instruction: str, sandbox: Sandbox) -> str:
    """Put a change into the work tree; what the harness is told of it."""
    image = sandbox.image
    # An agent made the change: one that cannot be written is no fault of the host, and must not pass for one.
    with suppress(TransferError):
        await sandbox.put(image.workdir, records_of(handover.patch.changes))
    return await asyncio.to_thread(handover.instruction, instruction, image.pristine)


def _sealed(environment: BaseEnvironment) -> SealedEnvironment:
    if not isinstance(environment, SealedEnvironment):
        raise SandboxError(
            f"a {environment.type()} environment has no listener of its own", "use one of lego_rl.sandbox"
        )
    return environment


def _fill(context: AgentContext, captured: Captured | None) -> None:
    """Harbor's own counts, for its result file."""
    if captured is None:
        return
    context.n_output_tokens = captured.accounting.sampled_tokens
    context.metadata = {"calls": captured.accounting.calls, "budget_hit": captured.accounting.budget_hit}
