"""Starting a harness in a sandbox: its files are written, its program runs with the instruction and ends.

Invariant: every start is the same, whoever asks for it: bundle at one place, gateway at one port, the repository as
working directory.
"""

from lego_rl.gateway.budget import Budget
from lego_rl.harness.base import Endpoint, Harness, Launch
from lego_rl.sandbox.records import Record
from lego_rl.sandbox.sandbox import Completed, Sandbox
from lego_rl.sandbox.seal_request import GATEWAY_PORT
from lego_rl.sandbox.user import HOME

PORT = GATEWAY_PORT
"""Where the gateway listens inside every sandbox; each has a network namespace of its own."""

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: what a harness has in memory and the work tree lacks counts, too."""

BUNDLE_MOUNT = "/opt/harness"
"""Where the harness's bundle is mounted."""


async def place(
    harness: Harness, sandbox: Sandbox, instruction: str, *, session: str, budget: Budget, model: str
) -> Launch:
    """Make a harness ready to be started: describe the start and write its files.

    Args:
        harness: The adapter; its bundle is mounted at `BUNDLE_MOUNT`.
        sandbox: Where; the gateway is served on its `PORT`.
        instruction: The task's text.
        session: Path of the session, below the gateway's address.
        budget: The session's.
        model: Model name to send.

    Raises:
        TransferError: A file cannot be written.
        SandboxError: The sandbox died.
    """
    endpoint = Endpoint(
        base_url=f"http://127.0.0.1:{PORT}{session}",
        model=model,
        context_tokens=budget.context_tokens,
        output_tokens=budget.output_tokens,
        turns=budget.turns,
    )
    launch = harness.launch(
        instruction,
        endpoint,
        mount=BUNDLE_MOUNT,
        home=HOME,
        workdir=sandbox.image.workdir,
        path=sandbox.environment["PATH"],
    )
    if launch.files:
        files = [Record(path.lstrip("/"), "file", text.encode()) for path, text in launch.files.items()]
        await sandbox.put("/", files)
    return launch


async def start(launch: Launch, sandbox: Sandbox, *, timeout_sec: float) -> Completed:
    """Run what `place` made ready to its end; when the time is up, it is asked to end, then killed.

    Nothing that it leaves behind goes on.
    """
    return await sandbox.run_last(
        list(launch.argv), env=launch.env, stdin=launch.stdin, timeout_sec=timeout_sec, grace_sec=GRACE_SECONDS
    )
