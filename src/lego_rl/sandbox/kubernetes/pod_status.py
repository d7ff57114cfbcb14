"""What a pod's status says about how it left, or why it does not start, told apart by who can bring it about.

Invariant: what an agent can do to its own pod (its memory, its disk, its processes, its own exit) is never evidence
against the cluster. The reasons are those of the kubelet, the scheduler and the controllers that remove pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

type Status = dict[str, Any]
"""A pod as the API tells of it."""

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


def container(pod: Status, name: str) -> Status:
    """The status of one container; empty before there is one."""
    return next((each for each in _containers(pod) if each["name"] == name), {})


def has_ended(pod: Status, name: str) -> bool:
    """Whether a container is dead for good."""
    return "terminated" in container(pod, name).get("state", {})


def is_running(pod: Status, name: str) -> bool:
    """Whether a container runs."""
    return "running" in container(pod, name).get("state", {})


def out_of_memory(pod: Status, name: str) -> bool:
    """Whether the kernel killed a container for its own memory limit."""
    ended: Status = container(pod, name).get("state", {}).get("terminated", {})
    return bool(ended.get("reason") == "OOMKilled")


def departed(pod: Status | None) -> Departed:
    """How a pod left.

    Args:
        pod: What the cluster last said of it; ``None`` where it is gone, though nobody of ours removed it.
    """
    if pod is None:
        return Departed(Departure.REMOVED, "somebody deleted the pod")
    found = _by_reason(pod.get("status", {})) or _by_conditions(pod.get("status", {}))
    if found is None and pod.get("metadata", {}).get("deletionTimestamp"):
        return Departed(Departure.REMOVED, "somebody deleted the pod")
    return found or Departed(Departure.NONE)


def has_settled(pod: Status) -> bool:
    """Whether a pod has ended for what happened in it: whoever tidies it away afterwards took nothing away."""
    is_final = pod.get("status", {}).get("phase") in FINAL
    return is_final and departed(pod).how in (Departure.NONE, Departure.EVICTED)


def _by_reason(status: Status) -> Departed | None:
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason == "Evicted":
        # A node short of memory was not made so by a pod that may use no more than it has reserved. Disk, inodes and
        # process ids are not reserved: a pod can exhaust them faster than anybody looks.
        if message.startswith(f"{NODE_IS_SHORT}memory"):
            return Departed(Departure.REMOVED, message)
        return Departed(Departure.EVICTED, message or reason, limit_of(message))
    if reason in NODE_REASONS or status.get("phase") == "Unknown":
        return Departed(Departure.NODE, message or reason or NO_ANSWER)
    return Departed(Departure.REMOVED, message or reason) if reason in REMOVAL_REASONS else None


def _by_conditions(status: Status) -> Departed | None:
    for condition in status.get("conditions", ()):
        disrupted = condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        # By the kubelet itself it is an eviction, or the shutdown of the node, which have names above.
        if disrupted and condition.get("reason") != "TerminationByKubelet":
            return Departed(Departure.REMOVED, str(condition.get("message") or condition.get("reason")))
        # A kubelet calls a pod unready for a container that is not ready, the cluster for a kubelet that is silent.
        unready = condition.get("type") == "Ready" and condition.get("status") != "True"
        containers = status.get("containerStatuses") or ()
        if unready and containers and all(each.get("ready") for each in containers):
            return Departed(Departure.NODE, NO_ANSWER)
    return None


def limit_of(message: str) -> Limit | None:
    """Which limit an eviction is for, in the kubelet's words (pkg/kubelet/eviction)."""
    if message.startswith(f"{NODE_IS_SHORT}pids"):
        return "processes"
    return "disk" if any(words in message for words in DISK_WORDS) else None


def cannot_start(pod: Status) -> tuple[str, str] | None:
    """Why a pod will not start by itself, and what to do; ``None`` where it still may."""
    status = pod.get("status", {})
    for each in _containers(pod):
        waiting = each.get("state", {}).get("waiting", {})
        if (reason := waiting.get("reason")) in WAITING_FOR_GOOD:
            return f"{reason}: {' '.join(str(waiting.get('message') or '').split())}", WAITING_FOR_GOOD[reason]
        ended = each.get("state", {}).get("terminated")
        if ended and ended.get("exitCode") != 0:
            said = " ".join(f"({ended.get('reason')}) {ended.get('message') or ''}".split())
            return (
                f"its container {each['name']} ended with {ended.get('exitCode')} {said}",
                "see that the image has the Python that sandbox.kubernetes.python names, and its work directory",
            )
    if status.get("phase") in FINAL:
        return f"it ended: {status.get('reason') or ''} {status.get('message') or ''}".strip(), "kubectl get events"
    return None


def why_pending(pod: Status) -> str:
    """What a pod that has not started waits for."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return f"no node takes it: {condition.get('message') or condition.get('reason')}"
    waiting = (each.get("state", {}).get("waiting", {}) for each in _containers(pod))
    return next((str(each["reason"]) for each in waiting if each.get("reason")), "its node does not start it")


def _containers(pod: Status) -> Iterator[Status]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
