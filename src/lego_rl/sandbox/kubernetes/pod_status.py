"""What a pod's status says about how it left, or why it does not start, told apart by who can bring it about.

Invariant: what an agent can do to its own pod (its memory, its disk, its processes, its own exit) is never evidence
against the cluster. The reasons are those of the kubelet, the scheduler and the controllers that remove pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from lego_rl.sandbox.kubernetes.answers import ContainerStatus, Pod, PodStatus

WAITING_FOR_GOOD = {
    "ImagePullBackOff": "see that sandbox.kubernetes can pull the image: its name, its registry and pull_secret",
    "ErrImagePull": "see that sandbox.kubernetes can pull the image: its name, its registry and pull_secret",
    "ErrImageNeverPull": "load the image onto the nodes, or set sandbox.kubernetes.pull_policy",
    "InvalidImageName": "mend the task's docker_image, or sandbox.kubernetes.image",
    "CreateContainerConfigError": "run: kubectl describe pod",
    "CreateContainerError": "run: kubectl describe pod",
    "RunContainerError": "run: kubectl describe pod",
}
"""Reasons for which a container waits and will not come by itself, and what mends them."""

NODE_REASONS = ("NodeLost", "NodeShutdown", "Terminated", "Shutdown")
REMOVAL_REASONS = ("NodeAffinity", "Preempting", "Preempted", "UnexpectedAdmissionError")
NODE_IS_SHORT = "The node was low on resource: "
DISK_WORDS = (
    "local ephemeral storage limit",
    "ephemeral local storage usage",
    "Usage of EmptyDir volume",
    f"{NODE_IS_SHORT}ephemeral-storage",
    f"{NODE_IS_SHORT}inodes",
)
NO_ANSWER = "the pod's node does not answer"
FINAL = ("Failed", "Succeeded")


class Departure(StrEnum):
    """How a pod left."""

    NONE = "none"
    """It is there, or ended by itself."""
    EVICTED = "evicted"
    """It was made to leave for what it used: the policy's."""
    REMOVED = "removed"
    """Somebody else made it leave: the host's."""
    NODE = "node"
    """Its node, or the cluster, does not answer any more: the host's."""


type Limit = Literal["disk", "processes"]
"""What a pod is made to leave for, though nobody reserved it for others."""


@dataclass(frozen=True)
class Departed:
    """How a pod left.

    Attributes:
        how: How.
        said: What the cluster said.
        limit: Of one that was evicted, which limit; ``None`` where the cluster names none that is known.
    """

    how: Departure
    said: str = ""
    limit: Limit | None = None


def container(pod: Pod, name: str) -> ContainerStatus:
    """The status of one container; one that says nothing before there is one."""
    return next((each for each in _containers(pod) if each.name == name), ContainerStatus(name))


def has_ended(pod: Pod, name: str) -> bool:
    """Whether a container is dead for good."""
    return container(pod, name).state.terminated is not None


def is_running(pod: Pod, name: str) -> bool:
    """Whether a container runs."""
    return container(pod, name).state.running is not None


def out_of_memory(pod: Pod, name: str) -> bool:
    """Whether the kernel killed a container for its own memory limit."""
    ended = container(pod, name).state.terminated
    return ended is not None and ended.reason == "OOMKilled"


def departed(pod: Pod | None) -> Departed:
    """How a pod left.

    Args:
        pod: What the cluster last said of it; ``None`` where it is gone, though nobody of ours removed it.
    """
    if pod is None:
        return Departed(Departure.REMOVED, "somebody deleted the pod")
    found = _by_reason(pod.status) or _by_conditions(pod.status)
    if found is None and pod.metadata.deletion_timestamp:
        return Departed(Departure.REMOVED, "somebody deleted the pod")
    return found or Departed(Departure.NONE)


def has_settled(pod: Pod) -> bool:
    """Whether a pod has ended for what happened in it: whoever tidies it away afterwards took nothing away."""
    return pod.status.phase in FINAL and departed(pod).how in (Departure.NONE, Departure.EVICTED)


def _by_reason(status: PodStatus) -> Departed | None:
    reason, message = status.reason, status.message
    if reason == "Evicted":
        # A node short of memory was not made so by a pod that may use no more than it has reserved. Disk, inodes and
        # process ids are not reserved: a pod can exhaust them faster than anybody looks.
        if message.startswith(f"{NODE_IS_SHORT}memory"):
            return Departed(Departure.REMOVED, message)
        return Departed(Departure.EVICTED, message or reason, limit_of(message))
    if reason in NODE_REASONS or status.phase == "Unknown":
        return Departed(Departure.NODE, message or reason or NO_ANSWER)
    return Departed(Departure.REMOVED, message or reason) if reason in REMOVAL_REASONS else None


def _by_conditions(status: PodStatus) -> Departed | None:
    for condition in status.conditions or ():
        disrupted = condition.type == "DisruptionTarget" and condition.status == "True"
        # By the kubelet itself it is an eviction, or the shutdown of the node, which have names above.
        if disrupted and condition.reason != "TerminationByKubelet":
            return Departed(Departure.REMOVED, condition.message or condition.reason or "somebody disrupted the pod")
        # A kubelet calls a pod unready for a container that is not ready, the cluster for a kubelet that is silent.
        unready = condition.type == "Ready" and condition.status != "True"
        containers = status.container_statuses or ()
        if unready and containers and all(each.ready for each in containers):
            return Departed(Departure.NODE, NO_ANSWER)
    return None


def limit_of(message: str) -> Limit | None:
    """Which limit an eviction is for, in the kubelet's words (pkg/kubelet/eviction)."""
    if message.startswith(f"{NODE_IS_SHORT}pids"):
        return "processes"
    return "disk" if any(words in message for words in DISK_WORDS) else None


def cannot_start(pod: Pod) -> tuple[str, str] | None:
    """Why a pod will not start by itself, and what to do; ``None`` where it still may."""
    for each in _containers(pod):
        waiting, ended = each.state.waiting, each.state.terminated
        if waiting is not None and waiting.reason in WAITING_FOR_GOOD:
            return f"{waiting.reason}: {' '.join(waiting.message.split())}", WAITING_FOR_GOOD[waiting.reason]
        if ended is not None and ended.exit_code != 0:
            said = " ".join(f"({ended.reason}) {ended.message}".split())
            return (
                f"its container {each.name} ended with {ended.exit_code} {said}",
                "see that the image has the Python that sandbox.kubernetes.python names, and its work directory",
            )
    if pod.status.phase in FINAL:
        return f"it ended: {pod.status.reason} {pod.status.message}".strip(), "kubectl get events"
    return None


def why_pending(pod: Pod) -> str:
    """What a pod that has not started waits for."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status != "True":
            return f"no node takes it: {condition.message or condition.reason}"
    waiting = (each.state.waiting for each in _containers(pod))
    reasons = (each.reason for each in waiting if each is not None and each.reason)
    return next(reasons, "its node does not start it")


def _containers(pod: Pod) -> Iterator[ContainerStatus]:
    yield from pod.status.init_container_statuses or ()
    yield from pod.status.container_statuses or ()
