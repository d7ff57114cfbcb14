"""The way out of a pod: the policies that are there before it, and the wait until a network plug-in keeps to them.

Invariant: nothing is allowed but what a phase needs, and that a policy exists is never taken for its being in force.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from lego_rl.errors import SandboxError
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.kubernetes import policies
from lego_rl.sandbox.kubernetes.address import listener_at
from lego_rl.sandbox.kubernetes.plan import Egress
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.sandbox import Phase

SETTLE_SECONDS = 20.0
"""How long a network plug-in may take to bring a new policy into force."""
PAUSE_SECONDS = 0.5
HELD_BY_POLICIES = (HoleKind.REACHED, HoleKind.NAME)
"""Holes that may still be there because a network plug-in is slow."""


async def open_way_out(
    run: Run, name: str, phase: Phase, egress: Egress, stack: AsyncExitStack
) -> socket.socket | None:
    """Create what lets packets out of a pod, before there is a pod; it goes when `stack` ends.

    Returns:
        The listener of an agent phase.
    """
    stack.push_async_callback(run.api.discard, run.api.path(policies.GROUP, "networkpolicies", name))
    if egress is Egress.OPEN:
        await run.policy(policies.open_policy(run.identity, name))
    if phase is Phase.GRADING:
        return None
    listener = listener_at(run.address)
    stack.callback(listener.close)
    listener.setblocking(False)
    _, port = listener.getsockname()
    await run.policy(policies.agent_policy(run.identity, name, run.address, port))
    return listener


async def settled_holes(
    look: Callable[[], Awaitable[list[Hole]]], reaches_gateway: Callable[[], Awaitable[bool]], address: str
) -> list[Hole]:
    """The holes of an agent phase when its policies have had time to come into force, and its gateway is reached.

    Args:
        look: What is open now.
        reaches_gateway: Whether the pod reaches its gateway now.
        address: Of this machine, as pods see it.

    Raises:
        SandboxError: The gateway cannot be reached.
    """
    until = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        found = await look()
        reached = await reaches_gateway()
        is_settled = reached and not any(hole.kind in HELD_BY_POLICIES for hole in found)
        if is_settled or asyncio.get_running_loop().time() > until:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    if not reached:
        raise SandboxError(
            f"pods cannot reach this machine at {address}",
            "set sandbox.kubernetes.advertise to an address that they can, and open the firewall to it",
        )
    return found
