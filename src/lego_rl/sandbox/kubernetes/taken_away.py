"""Who took a pod away that does not answer any more, by what the cluster says.

Invariant: the end of a stream alone is no evidence. What it runs through in the pod, the keeper, shares memory of the
node, processes and a network with the agent beside it, and a stream that is cut while everything goes on answering may
have been cut for its age, which an agent can wait for. A loss takes a word of the cluster's, or its silence.
"""

import asyncio

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import SandboxDied
from lego_rl.sandbox.kubernetes.answers import Pod
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.manifests import KEEPER
from lego_rl.sandbox.kubernetes.pod_status import Departed, Departure, departed, has_ended
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.silence import is_silent
from lego_rl.sandbox.kubernetes.stream import PodStream, StreamEnd
from lego_rl.sandbox.loss import Loss, LossCause

STATUS_SECONDS = 15.0
"""How long the cluster may take to say what became of a pod whose program ended."""
NODE_SECONDS = 75.0
"""How long it may take to say that a node is silent: 40 or 50 s, unless its controllers are told otherwise."""
_CAUSES = {Departure.REMOVED: LossCause.KILLED, Departure.NODE: LossCause.RUNTIME}


async def loss_of(run: Run, name: str, needed: str, end: StreamEnd | None) -> Loss | None:
    """The evidence that somebody outside took a pod away, if there is any.

    Nothing in a pod can bring it about: a pod has no credentials of the cluster's, so it deletes nothing and silences
    no node; what it makes its node do to it has a word of its own (`Departure.EVICTED`), which comes first and stays.
    Silence counts only where the stream was not ended by anything in the pod: it was cut, or this host hung up.

    Args:
        run: The pod's.
        name: The pod's.
        needed: The container that is needed: once that has ended by itself, nobody took it away.
        end: How the stream to it ended; of one that could not be opened, that it was cut.
    """
    is_cut = end in (StreamEnd.CUT, StreamEnd.HUNG_UP)
    if is_cut and _how_it_left(run.pods.get(name), needed) is None and await is_silent(run.api):
        return Loss(LossCause.RUNTIME, f"the stream to pod {name} was cut and the cluster does not answer")
    try:
        async with asyncio.timeout(NODE_SECONDS if is_cut else STATUS_SECONDS):
            found = await run.pods.wait(name, lambda pod: _how_it_left(pod, needed))
    except (TimeoutError, ClusterError):  # That pods cannot be watched may be this process's own doing.
        return None
    cause = _CAUSES.get(found.how)
    return None if cause is None else Loss(cause, " ".join(found.said.split()))


async def loss_of_files(run: Run, name: str, stream: PodStream, error: SandboxError) -> Loss | None:
    """The evidence that somebody took away the pod of a dead work container, whose keeper could not be asked.

    No agent is in it any more. What is left of one is its files, and where the keeper answered, what it said of them is
    why they cannot be had: that is nobody's loss, whatever becomes of the pod.

    Args:
        run: The pod's.
        name: The pod's.
        stream: The stream to its keeper.
        error: Why it could not be asked.
    """
    if isinstance(error, ClusterError):
        return await loss_of(run, name, KEEPER, StreamEnd.CUT)
    if isinstance(error.__cause__, SandboxDied):
        return await loss_of(run, name, KEEPER, await stream.how_it_ended())
    return None


def _how_it_left(pod: Pod | None, needed: str) -> Departed | None:
    """Once it has left, or a container is dead by itself."""
    found = departed(pod)
    ended = pod is not None and has_ended(pod, needed)
    return found if found.how is not Departure.NONE or ended else None
