"""What an API server answers, as far as sandboxes read it.

Invariant: an answer is checked as a whole when it comes, so whoever reads a field of it has one of its type; an answer
that is none is a `ClusterError`, as silence is.

Source: the Kubernetes API reference (kubernetes.io/docs/reference/kubernetes-api), of which every field here is a part
under the same name. Lists may be ``null``; what is empty may be left out.
"""

from typing import Any

import msgspec

from lego_rl.sandbox.kubernetes.errors import ClusterError


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """Some object of the reference."""


class Metadata(Answer, frozen=True):
    """``ObjectMeta``."""

    name: str
    uid: str = ""
    deletion_timestamp: str | None = None


class ListMetadata(Answer, frozen=True):
    """``ListMeta``."""

    resource_version: str


class Condition(Answer, frozen=True):
    """``PodCondition``."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Waiting(Answer, frozen=True):
    """``ContainerStateWaiting``."""

    reason: str = ""
    message: str = ""


class Terminated(Answer, frozen=True):
    """``ContainerStateTerminated``. An agent chooses the exit code and may choose the message."""

    exit_code: int
    reason: str = ""
    message: str = ""


class ContainerState(Answer, frozen=True):
    """``ContainerState``: one of the three, or none."""

    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Answer, frozen=True):
    """``ContainerStatus``."""

    name: str
    ready: bool = False
    state: ContainerState = ContainerState()
    image_id: str = msgspec.field(name="imageID", default="")


class PodStatus(Answer, frozen=True):
    """``PodStatus``."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Answer, frozen=True):
    """``Pod``."""

    metadata: Metadata
    status: PodStatus = PodStatus()


class PodList(Answer, frozen=True):
    """``PodList``."""

    metadata: ListMetadata
    items: tuple[Pod, ...] | None


class LeaseSpec(Answer, frozen=True):
    """``LeaseSpec``. What another program may have written is anything."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Answer, frozen=True):
    """``Lease``."""

    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


class LeaseList(Answer, frozen=True):
    """``LeaseList``."""

    items: tuple[Lease, ...] | None


class Event(Answer, frozen=True):
    """``WatchEvent``; what the object is depends on the type."""

    type: str
    object: dict[str, Any]


class Version(Answer, frozen=True):
    """``Info`` of ``/version``; some providers write more than a number."""

    major: str
    minor: str


class ReviewStatus(Answer, frozen=True):
    """``SubjectAccessReviewStatus``."""

    allowed: bool


class Review(Answer, frozen=True):
    """``SelfSubjectAccessReview``."""

    status: ReviewStatus


def read[T: Answer](kind: type[T], answer: object) -> T:
    """An answer of the cluster's as what it should be.

    Raises:
        ClusterError: It is something else.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ClusterError(
            f"the cluster answered with no {kind.__name__}: {error}",
            "look at its API server, and at what stands before it",
        ) from error
