"""What an agent's pod must not reach, and whether it does: a network plug-in may ignore policies without saying so.

Invariant: the addresses are tried from the pod's own network, after its policies were created and before anything of
the agent's runs; the neighbour that is tried is known to take connections from whoever may send them.
"""

import asyncio
from collections.abc import Sequence

from lego_rl.sandbox.channel import Channel
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.transfer import operate

METADATA = ("169.254.169.254 80", "fd00:ec2::254 80")
"""Where clouds tell a machine, and whoever is on it, its credentials."""
SETTLE_SECONDS = 20.0
"""How long a plug-in may take to bring a new policy into force."""
PAUSE_SECONDS = 0.5
HEALTHY = "see that the cluster's network plug-in enforces network policies (docs/kubernetes.md)"


async def targets(run: Run) -> list[str]:
    """Addresses that no agent phase may reach, as ``HOST PORT``."""
    return [*METADATA, *await run.neighbours()]


async def reachable(channel: Channel, forbidden: Sequence[str], wanted: str) -> list[str]:
    """The addresses that take a connection from a pod, once the plug-in has had time to settle.

    Args:
        channel: The pod's keeper.
        forbidden: Addresses that must not.
        wanted: The one that must.

    Raises:
        SandboxError: The pod died.
    """
    until = asyncio.get_running_loop().time() + SETTLE_SECONDS
    while True:
        answer = await operate(channel, ["reach", *forbidden, wanted])
        found = answer.decode(errors="replace").splitlines()
        if found == [wanted] or asyncio.get_running_loop().time() > until:
            return found
        await asyncio.sleep(PAUSE_SECONDS)
