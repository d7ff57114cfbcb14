"""Which of its own limits a pod ran into: what the keeper measured, what the kernel counted, what the cluster said."""

from lego_rl.sandbox.kubernetes.answers import Pod
from lego_rl.sandbox.kubernetes.manifests import WORK
from lego_rl.sandbox.kubernetes.pod_status import Departure, departed, out_of_memory
from lego_rl.sandbox.limits import LimitHits


def limit_hits(measured: LimitHits, pod: Pod | None) -> LimitHits:
    """Both together.

    Args:
        measured: By the keeper and the kernel.
        pod: What the cluster last said; ``None`` where it says nothing any more.
    """
    left = departed(pod) if pod is not None else None
    limit = left.limit if left is not None and left.how is Departure.EVICTED else None
    return LimitHits(
        memory=max(measured.memory, int(pod is not None and out_of_memory(pod, WORK))),
        processes=max(measured.processes, int(limit == "processes")),
        disk=measured.disk or limit == "disk",
        unmeasured=measured.unmeasured,
    )
