"""What a recipe may say of a cluster."""

from typing import Literal

from pydantic import Field

from lego_rl.settings import FilePath, Settings


class Toleration(Settings):
    """A taint of nodes that pods put up with (Kubernetes' own words)."""

    key: str | None = None
    """The taint's key; every taint if unset."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: str | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; every effect if unset."""


class KubernetesSettings(Settings):
    """The cluster, and what every pod on it is given."""

    kubeconfig: FilePath | None = None
    """File that says how to reach the cluster; as kubectl finds it if unset, else the pod's own service account."""
    context: str | None = None
    """Context of that file; its current one if unset."""
    namespace: str | None = None
    """Namespace of everything that is created; the context's own if unset."""
    owner: str | None = Field(default=None, pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")
    """Whose sandboxes these are: only leftovers of the same owner are removed. User and host name if unset."""
    image: str | None = None
    """Image for tasks that name none with ``docker_image``; it needs ``python3``, and pytest for Python tasks."""
    python: str = "python3"
    """The Python (3.10 or later) in the images that the first process of a sandbox runs on."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When nodes pull images."""
    pull_secret: str | None = None
    """Secret with the registry's credentials."""
    advertise: str | None = Field(default=None, pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$")
    """IPv4 address at which pods reach this process; the one that this machine reaches the cluster from if unset."""
    runtime_class: str | None = None
    """Runtime class of pods, such as one of gVisor or Kata Containers."""
    seccomp_profile: str | None = None
    """Seccomp profile on the nodes, below the kubelet's folder; the container runtime's default if unset."""
    user_namespaces: Literal["supported", "never"] = "supported"
    """Whether pods get a user namespace where the cluster's version can give them one."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that pods may run on."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that pods put up with."""
    cpus: float = Field(default=1.0, gt=0)
    """Processor time of one sandbox, in processors; asked for and limited alike."""
    start_sec: float = Field(default=600.0, gt=0)
    """Longest that a pod may take to be scheduled, have its image pulled and start."""
    pod_sec: float = Field(default=6 * 3600.0, gt=0)
    """Longest life of a pod, whoever still wants it: longer than any agent phase or grading."""
