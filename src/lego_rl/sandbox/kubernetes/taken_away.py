"""Who took a pod away whose stream ended, by what the cluster says.

Invariant: the end of a stream alone is no evidence. What it runs through in the pod, the keeper, shares memory of the
node, processes and a network with the agent beside it, and a stream that is cut while everything goes on answering may
have been cut for its age, which an agent can wait for. A loss takes a word of the cluster's, or its silence.
"""

import asyncio

from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.manifests import WORK
from lego_rl.sandbox.kubernetes.pod_status import Departed, Departure, Status, departed, has_ended
from lego_rl.sandbox.kubernetes.run import Run
from lego_rl.sandbox.kubernetes.silence import is_silent
from lego_rl.sandbox.kubernetes.stream import StreamEnd
from lego_rl.sandbox.loss import Loss, LossCause

STATUS_SECONDS = 15.0
"""How long the cluster may take to say what became of a pod whose program ended."""
NODE_SECONDS = 75.0
"""How long it may take to say that a node is silent: 40 or 50 s, unless its controllers are told otherwise."""
_CAUSES = {Departure.REMOVED: LossCause.KILLED, Departure.NODE: LossCause.RUNTIME}


async def loss_of(run: Run, name: str, end: StreamEnd | None) -> Loss | None:
    """The evidence that somebody outside took a pod away, if there is any.

    Args:
        run: The pod's.
        name: The pod's.
        end: How its stream ended.
    """
    is_cut = end is StreamEnd.CUT
    if is_cut and await is_silent(run.api):
        return Loss(LossCause.RUNTIME, f"the stream to pod {name} was cut and the cluster does not answer")
    try:
        async with asyncio.timeout(NODE_SECONDS if is_cut else STATUS_SECONDS):
            found = await run.pods.wait(name, _how_it_left)
    except (TimeoutError, ClusterError):  # That pods cannot be watched may be this process's own doing.
        return None
    cause = _CAUSES.get(found.how)
    return None if cause is None else Loss(cause, " ".join(found.said.split()))


def _how_it_left(pod: Status | None) -> Departed | None:
    """Once it has left, or its work container is dead by itself."""
    found = departed(pod)
    ended = pod is not None and has_ended(pod, WORK)
    return found if found.how is not Departure.NONE or ended else None
