"""What one sandbox asks of its pod."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lego_rl.errors import SandboxError
from lego_rl.sandbox.kubernetes.pod_image import PodImage
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.mounts import Mount, check_beside
from lego_rl.sandbox.sandbox import Phase

SLACK = 1.25
"""How much later than ours the kubelet's own limits on disk are: it evicts the pod, and nothing is left to grade."""


class Egress(StrEnum):
    """What a pod reaches, but for an agent's own gateway."""

    NONE = "none"
    OPEN = "open"
    """Whatever a pod of the cluster does."""


@dataclass(frozen=True)
class PodPlan:
    """A pod that is to be.

    Attributes:
        name: The pod's, and the value of its sandbox label.
        phase: What it is for; ``None`` for one that shows an image and has no work container.
        image: Image reference.
        workdir: Where the work tree is.
        limits: Its limits.
        mounts: Where inside read-only mounts are shown, in order.
        mounts_mb: Their size on a disk, in MiB, rounded up.
        egress: What it reaches; with the network it has the cluster's name service.
    """

    name: str
    phase: Phase | None
    image: str
    workdir: str
    limits: Limits
    mounts: Sequence[str] = ()
    mounts_mb: int = 1
    egress: Egress = Egress.NONE


def plan_of(
    name: str, phase: Phase, image: PodImage, limits: Limits, mounts: Sequence[Mount], egress: Egress
) -> PodPlan:
    """The plan of a sandbox; it looks at the sizes of mounts.

    Raises:
        SandboxError: Something cannot be mounted, or not where it is to be.
    """
    for mount in mounts:
        if not mount.source.is_dir():
            raise SandboxError(f"{mount.source} cannot be mounted in a pod: it is no folder", "mount its folder")
        check_beside(mount, image.workdir)
    sizes = (path.lstat().st_blocks * 512 for mount in mounts for path in mount.source.rglob("*"))
    return PodPlan(
        name=name,
        phase=phase,
        image=image.image,
        workdir=image.workdir,
        limits=limits,
        mounts=tuple(mount.target for mount in mounts),
        mounts_mb=1 + int(sum(sizes) * SLACK) // (1 << 20),
        egress=egress,
    )
