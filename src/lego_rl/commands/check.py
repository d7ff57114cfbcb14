"""``lego-rl check``: what can be known before anything starts."""

import asyncio

from rich.console import Console

from lego_rl.sandbox.probe import probe
from lego_rl.sandbox.state import State


def sandbox() -> None:
    """Isolate a real process here, as every trial does, and say what holds its limits.

    Raises:
        SandboxError: Agents cannot be isolated; the message names the one command that mends it.
    """
    report = asyncio.run(probe(State.default()))
    console = Console()
    console.print("sandbox: one was started, sealed, used and removed here")
    console.print(f"limits: memory is held by {report.memory}, processes by {report.processes}")
