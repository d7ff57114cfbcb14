"""What a pod's status says: each way to lose a pod, and who can bring it about."""

from typing import Any

import pytest

from lego_rl.sandbox.kubernetes.evidence import Loss, cannot_start, has_ended, lost, out_of_memory, why_pending

RUNNING = {"name": "work", "ready": True, "state": {"running": {}}}
READY = {"type": "Ready", "status": "True"}


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "pod"}, "status": {"phase": "Running", "containerStatuses": [RUNNING], **status}}


def ended(reason: str, code: int = 1, **more: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, **more}}
    return pod(containerStatuses=[{"name": "work", "ready": False, "state": state}])


EVICTED = "Evicted"
UNREADY = {"type": "Ready", "status": "False"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}
CASES = [
    (pod(conditions=[READY]), Loss.NONE),
    (ended("Error", 137), Loss.NONE),
    (ended("OOMKilled", 137), Loss.NONE),
    (ended("Completed", 0) | {"metadata": {}}, Loss.NONE),
    (pod(phase="Failed", reason="DeadlineExceeded"), Loss.NONE),
    (pod(reason=EVICTED, message="Pod ephemeral local storage usage exceeds the total."), Loss.OWN_LIMIT),
    (pod(reason=EVICTED, message='Usage of EmptyDir volume "tree" exceeds the limit "1Mi".'), Loss.OWN_LIMIT),
    (pod(reason=EVICTED, message="The node was low on resource: ephemeral-storage."), Loss.OWN_LIMIT),
    (pod(reason=EVICTED, message="The node was low on resource: inodes."), Loss.OWN_LIMIT),
    (pod(reason=EVICTED, message="The node was low on resource: pids."), Loss.OWN_LIMIT),
    (pod(reason=EVICTED), Loss.OWN_LIMIT),
    (pod(reason=EVICTED, message="The node was low on resource: memory."), Loss.REMOVED),
    (pod(reason="Preempting"), Loss.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "PreemptionByScheduler"}]), Loss.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "DeletionByTaintManager"}]), Loss.REMOVED),
    (pod(conditions=[DISRUPTED | {"reason": "TerminationByKubelet"}]), Loss.NONE),
    (pod(conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]), Loss.NONE),
    (pod() | {"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}}, Loss.REMOVED),
    (None, Loss.REMOVED),
    (pod(reason="NodeLost"), Loss.NODE),
    (pod(reason="Terminated", message="Pod was terminated in response to imminent node shutdown."), Loss.NODE),
    (pod(phase="Unknown"), Loss.NODE),
    (pod(conditions=[UNREADY]), Loss.NODE),
    (pod(conditions=[UNREADY], containerStatuses=[RUNNING | {"ready": False}]), Loss.NONE),
]  # fmt: skip


@pytest.mark.parametrize(("status", "loss"), CASES)
def test_who_lost_a_pod(status: dict[str, Any] | None, loss: Loss) -> None:
    assert lost(status).loss is loss
    assert bool(lost(status).said) is (loss is not Loss.NONE)


def test_ends_of_a_container() -> None:
    assert has_ended(ended("Error"), "work") and not has_ended(pod(), "work") and not has_ended({}, "work")
    assert out_of_memory(ended("OOMKilled", 137), "work") and not out_of_memory(ended("Error", 137), "work")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (pod(), None),
        ({}, None),
        (pod(containerStatuses=[{"name": "work", "state": {"waiting": {"reason": "ContainerCreating"}}}]), None),
        (pod(containerStatuses=[{"name": "work", "state": {"waiting": {"reason": "ErrImagePull"}}}]), "ErrImagePull"),
        (pod(initContainerStatuses=[{"name": "stage", "state": {"terminated": {"exitCode": 0}}}]), None),
        (ended("Error", 127, message="python3: not found"), "ended with 127 (Error) python3: not found"),
        (pod(phase="Failed", reason="OutOfcpu"), "OutOfcpu"),
    ],
)
def test_why_a_pod_will_not_start(status: dict[str, Any], said: str | None) -> None:
    found = cannot_start(status)
    assert (found is None) if said is None else (found is not None and said in found[0] and found[1])


def test_what_a_pod_waits_for() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}
    assert "no node takes it: 0/3 nodes" in why_pending(pod(conditions=[unscheduled]))
    waiting = [{"name": "work", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    assert why_pending(pod(containerStatuses=waiting)) == "ContainerCreating"
    assert "does not start it" in why_pending({})
