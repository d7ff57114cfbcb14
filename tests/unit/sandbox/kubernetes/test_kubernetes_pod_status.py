"""What a pod's status says: each way in which a pod leaves, and who can bring it about."""

from typing import Any

import pytest

from lego_rl.sandbox.kubernetes.answers import Metadata, Pod, read
from lego_rl.sandbox.kubernetes.pod_status import (
    Departure,
    cannot_start,
    departed,
    has_ended,
    limit_of,
    out_of_memory,
    why_pending,
)

RUNNING = {"name": "work", "ready": True, "state": {"running": {}}}
READY = {"type": "Ready", "status": "True"}


def pod(mark: str | None = None, **status: Any) -> Pod:
    told = {"phase": "Running", "containerStatuses": [RUNNING], **status}
    return read(Pod, {"metadata": {"name": "pod", "deletionTimestamp": mark}, "status": told})


def ended(reason: str, code: int = 1, **more: str) -> Pod:
    state = {"terminated": {"exitCode": code, "reason": reason, **more}}
    return pod(containerStatuses=[{"name": "work", "ready": False, "state": state}])


NEW = Pod(Metadata("pod"))
EVICTED = "Evicted"
UNREADY = {"type": "Ready", "status": "False"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}
CASES = [
    (pod(conditions=[READY]), Departure.NONE),
    (ended("Error", 137), Departure.NONE),
    (ended("OOMKilled", 137), Departure.NONE),
    (ended("Completed", 0), Departure.NONE),
    (pod(phase="Failed", reason="DeadlineExceeded"), Departure.NONE),
    (pod(reason=EVICTED, message="Pod ephemeral local storage usage exceeds the total."), Departure.EVICTED),
    (pod(reason=EVICTED, message='Usage of EmptyDir volume "tree" exceeds the limit "1Mi".'), Departure.EVICTED),
    (pod(reason=EVICTED, message="The node was low on resource: ephemeral-storage."), Departure.EVICTED),
    (pod(reason=EVICTED, message="The node was low on resource: inodes."), Departure.EVICTED),
    (pod(reason=EVICTED, message="The node was low on resource: pids."), Departure.EVICTED),
    (pod(reason=EVICTED), Departure.EVICTED),
    (pod(reason=EVICTED, message="The node was low on resource: memory."), Departure.REMOVED),
    (pod(reason="Preempting"), Departure.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "PreemptionByScheduler"}]), Departure.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "DeletionByTaintManager"}]), Departure.REMOVED),
    (pod(conditions=[DISRUPTED]), Departure.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "TerminationByKubelet"}]), Departure.NONE),
    (pod(conditions=[DISRUPTED | {"status": "False", "reason": "PreemptionByScheduler"}]), Departure.NONE),
    (pod("2026-11-30T12:00:00Z"), Departure.REMOVED),
    (None, Departure.REMOVED),
    (pod(reason="NodeLost"), Departure.NODE),
    (pod(reason="Terminated", message="Pod was terminated in response to imminent node shutdown."), Departure.NODE),
    (pod(phase="Unknown"), Departure.NODE),
    (pod(conditions=[UNREADY]), Departure.NODE),
    (pod(conditions=[UNREADY], containerStatuses=[RUNNING | {"ready": False}]), Departure.NONE),
]  # fmt: skip


@pytest.mark.parametrize(("status", "how"), CASES)
def test_how_a_pod_left(status: Pod | None, how: Departure) -> None:
    assert departed(status).how is how
    assert bool(departed(status).said) is (how is not Departure.NONE)


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ('Usage of EmptyDir volume "tree" exceeds the limit "30Mi". ', "disk"),
        ('Container work exceeded its local ephemeral storage limit "92Mi". ', "disk"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", "disk"),
        ("The node was low on resource: ephemeral-storage. Container work was using 1Gi.", "disk"),
        ("The node was low on resource: inodes. ", "disk"),
        ("The node was low on resource: pids. ", "processes"),
        ("The node was low on resource: something-new. ", None),
        ("", None),
    ],
)
def test_the_limit_that_a_pod_was_evicted_for(message: str, limit: str | None) -> None:
    assert limit_of(message) == limit
    assert departed(pod(reason=EVICTED, message=message)).limit == limit


def test_ends_of_a_container() -> None:
    assert has_ended(ended("Error"), "work") and not has_ended(pod(), "work") and not has_ended(NEW, "work")
    assert out_of_memory(ended("OOMKilled", 137), "work") and not out_of_memory(ended("Error", 137), "work")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (pod(), None),
        (NEW, None),
        (pod(containerStatuses=[{"name": "work", "state": {"waiting": {"reason": "ContainerCreating"}}}]), None),
        (pod(containerStatuses=[{"name": "work", "state": {"waiting": {"reason": "ErrImagePull"}}}]), "ErrImagePull"),
        (pod(initContainerStatuses=[{"name": "stage", "state": {"terminated": {"exitCode": 0}}}]), None),
        (ended("Error", 127, message="python3: not found"), "ended with 127 (Error) python3: not found"),
        (pod(phase="Failed", reason="OutOfcpu"), "OutOfcpu"),
    ],
)
def test_why_a_pod_will_not_start(status: Pod, said: str | None) -> None:
    found = cannot_start(status)
    assert (found is None) if said is None else (found is not None and said in found[0] and found[1])


def test_what_a_pod_waits_for() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}
    assert "no node takes it: 0/3 nodes" in why_pending(pod(conditions=[unscheduled]))
    waiting = [{"name": "work", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    assert why_pending(pod(containerStatuses=waiting)) == "ContainerCreating"
    assert "does not start it" in why_pending(NEW)
