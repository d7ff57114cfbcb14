"""A harness at work on a copy of a workspace, in a sandbox as every trial has one.

Invariant: whatever comes of it, every process in the sandbox is dead and nothing of the copy is left when it is over.
What comes out is the agent's change, computed on the host from file trees alone.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lego_rl.engine.protocol import EngineError
from lego_rl.errors import RunError
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.call_log import CALL_LOG, LoggedCall, read_calls
from lego_rl.gateway.server import AnyGateway
from lego_rl.gateway.session import AnySession
from lego_rl.gateway.transcript import Captured
from lego_rl.harness.base import Harness, HarnessBundle
from lego_rl.harness.start import BUNDLE_MOUNT, PORT, place, start
from lego_rl.sandbox.environments import provider_of, state_of
from lego_rl.sandbox.limits import LimitHits
from lego_rl.sandbox.mounts import read_only
from lego_rl.sandbox.patch_text import patch_text
from lego_rl.sandbox.provider import TaskImage
from lego_rl.sandbox.sandbox import Completed, Phase, Sandbox
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import NESTED
from lego_rl.sandbox.verdict import Patch
from lego_rl.threads import in_thread
from lego_rl.workspace.listing import Listing
from lego_rl.workspace.stage import Staged, stage

WORKDIR = "/workspace"
_AROUND_THE_SESSION_SECONDS = 15.0
"""How much longer than its session a harness may live, as in a trial."""
_LOOK_SECONDS = 1.0

type Watcher = Callable[[LoggedCall], None]
"""Is told of every answered call."""


@dataclass(frozen=True)
class Job:
    """What is to be done, and with what.

    Attributes:
        instruction: What the agent is told.
        workspace: The folder; it is only read.
        listing: What of it is handed over.
        harness: The adapter.
        bundle: The installed harness.
        budget: What the agent may spend.
        temperature: Of every call.
        sandbox: What the sandbox is given.
        model: Model name that the harness sends.
    """

    instruction: str
    workspace: Path
    listing: Listing
    harness: Harness
    bundle: HarnessBundle
    budget: Budget
    temperature: float
    sandbox: SandboxSettings
    model: str = "policy"


@dataclass(frozen=True)
class Done:
    """What came of a job.

    Attributes:
        patch: The agent's change.
        text: The same, as ``git apply`` takes it.
        staged: What was handed over.
        completed: How the harness ended.
        captured: What the gateway wrote down.
        failure: Why the policy did not answer in the end, if it did not.
        limit_hits: Which of its limits the sandbox ran into.
    """

    patch: Patch
    text: bytes
    staged: Staged
    completed: Completed
    captured: Captured
    failure: Exception | None
    limit_hits: LimitHits


async def work(job: Job, gateway: AnyGateway, watch: Watcher = lambda call: None) -> Done:
    """Do a job.

    Args:
        job: What is to be done.
        gateway: Serves the policy.
        watch: Is told of every answered call.

    Raises:
        LegoError: The workspace cannot be handed over, or no sandbox can be had.
    """
    state = state_of(job.sandbox)
    provider_of(job.sandbox).reap()
    with state.building(state.root, "workspace-") as folder:
        # A state folder of its own, so that what is copied of the workspace is gone with it.
        own = job.sandbox.model_copy(update={"state": folder / NESTED})
        repo = folder / "environment" / "repo"
        repo.mkdir(parents=True)
        staged = await in_thread(partial(stage, job.workspace, job.listing, repo))
        image = await in_thread(partial(provider_of(own).prepare, repo.parent, workdir=WORKDIR))
        await in_thread(partial(shutil.rmtree, repo.parent))
        return await _in_sandbox(job, gateway, image, staged, own, folder / CALL_LOG, watch)


async def _in_sandbox(
    job: Job,
    gateway: AnyGateway,
    image: TaskImage,
    staged: Staged,
    settings: SandboxSettings,
    log: Path,
    watch: Watcher,
) -> Done:
    mounts = read_only({BUNDLE_MOUNT: str(job.bundle.path)})
    sandbox = await image.start(Phase.AGENT, mounts=mounts, limits=settings.limits(None, None))
    try:
        await verify_seal(sandbox, None)
        session = gateway.open(job.budget, temperature=job.temperature, log=log)
        async with AsyncExitStack() as stack:
            closing = _Closing(gateway, session)
            stack.push_async_callback(closing.close)
            listener = await gateway.serve(await sandbox.listen(PORT), session)
            stack.push_async_callback(listener.close)
            await stack.enter_async_context(_watching(log, watch))
            completed = await _run(job, sandbox, session)
        await sandbox.kill()
        hits = sandbox.limit_hits()
        snapshot = await sandbox.snapshot()
        patch = await in_thread(partial(snapshot.diff, image.pristine))
        text = await in_thread(partial(patch_text, patch, image.pristine))
    finally:
        await sandbox.close()
    if closing.captured is None:
        raise AssertionError("the session was closed")
    failure = session.failure if isinstance(session.failure, EngineError) else None
    return Done(patch, text, staged, completed, closing.captured, failure, hits)


async def _run(job: Job, sandbox: Sandbox, session: AnySession) -> Completed:
    launch = await place(
        job.harness, sandbox, job.instruction, session=session.path, budget=job.budget, model=job.model
    )
    return await start(launch, sandbox, timeout_sec=job.budget.wall_clock_sec + _AROUND_THE_SESSION_SECONDS)


@dataclass
class _Closing:
    """Closes a session once, and keeps what it captured."""

    gateway: AnyGateway
    session: AnySession
    captured: Captured | None = None

    async def close(self) -> None:
        self.captured = await self.gateway.close(self.session)


@asynccontextmanager
async def _watching(log: Path, watch: Watcher) -> AsyncIterator[None]:
    seen = 0

    async def look() -> None:
        nonlocal seen
        calls: Sequence[LoggedCall] = []
        with suppress(RunError):  # not there yet
            calls = await asyncio.to_thread(lambda: list(read_calls(log)))
        for call in calls[seen:]:
            watch(call)
        seen = max(seen, len(calls))

    async def keep_looking() -> None:
        while True:
            await look()
            await asyncio.sleep(_LOOK_SECONDS)

    task = asyncio.create_task(keep_looking())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await look()
