"""What a pod starts from."""

from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.image import PreparedTree
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings


@dataclass(frozen=True)
class PodImage(PreparedTree):
    """See `Tree`.

    Attributes:
        settings: The cluster.
        image: Image reference.
        identity: The image's digest, as nodes tell it.
        base: The image's own work tree, on the host.
    """

    settings: KubernetesSettings
    image: str
    identity: str
    base: Path
