"""Whether a cluster lets its user do what sandboxes need, asked before any is started.

Invariant: what is missing is named with the rule that allows it; nothing is created to find out.
"""

from collections.abc import Mapping, Sequence

from lego_rl.sandbox.kubernetes.answers import Review, read
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.errors import ROLE, ClusterError
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NEEDED: Mapping[tuple[str, str], Sequence[str]] = {
    ("", "pods"): ("create", "delete", "get", "list", "watch"),
    ("", "pods/exec"): ("create", "get"),
    ("", "configmaps"): ("create", "get"),
    ("networking.k8s.io", "networkpolicies"): ("create", "delete", "get"),
    ("coordination.k8s.io", "leases"): ("create", "delete", "get", "list", "update"),
}
"""Group and resource → verbs, all in one namespace: the rules of the Role in docs/kubernetes.md."""
OLDEST = (1, 20)


async def check_access(settings: KubernetesSettings) -> None:
    """Ask the cluster what its user may do.

    Raises:
        SandboxError: There is no cluster, it is too old, or something is forbidden.
    """
    async with await Api.connect(settings) as api:
        version = await api.version()
        if version < OLDEST:
            found, least = (".".join(map(str, each)) for each in (version, OLDEST))
            raise ClusterError(f"the cluster runs Kubernetes {found}", f"use one that runs {least} or later")
        for (group, resource), verbs in NEEDED.items():
            for verb in verbs:
                if not await _may(api, group, resource, verb):
                    raise ClusterError(
                        f"the cluster forbids to {verb} {resource} in namespace {api.namespace}", f"run: {ROLE}", 403
                    )


async def _may(api: Api, group: str, resource: str, verb: str) -> bool:
    plain, _, sub = resource.partition("/")
    asked = {"namespace": api.namespace, "verb": verb, "group": group, "resource": plain, "subresource": sub}
    answer = await api.create(
        REVIEWS,
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        },
    )
    return read(Review, answer).status.allowed
