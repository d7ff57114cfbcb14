"""Network policies: what lets packets out of a pod, and into it.

Invariant: every pod of a run is selected by `deny_all`, which allows nothing; policies only ever add up.
"""

from collections.abc import Mapping

from lego_rl.messages import Json
from lego_rl.sandbox.kubernetes.api import Manifest
from lego_rl.sandbox.kubernetes.labels import ROLE, SANDBOX, Identity

GROUP = "networking.k8s.io/v1"


def deny_all(identity: Identity) -> Manifest:
    """No packet in, none out, for every pod of the run."""
    return _policy(identity, f"{identity.run}-deny", identity.labels, ingress=[], egress=[])


def agent_policy(identity: Identity, sandbox: str, address: str, port: int) -> Manifest:
    """The one way out of an agent phase: the host's own listener for it. No name service."""
    to: Json = [{"ipBlock": {"cidr": f"{address}/32"}}]
    rule: Json = {"to": to, "ports": [{"protocol": "TCP", "port": port}]}
    return _policy(identity, sandbox, {**identity.labels, SANDBOX: sandbox}, egress=[rule])


def open_policy(identity: Identity, sandbox: str) -> Manifest:
    """Every way out, for the grading of a task whose tests need a network; still no way in."""
    return _policy(identity, sandbox, {**identity.labels, SANDBOX: sandbox}, egress=[{}])


def sentinel_policy(identity: Identity) -> Manifest:
    """Every packet in, so that only its sender's own policy can keep one from the sentinel."""
    return _policy(identity, f"{identity.run}-sentinel", {**identity.labels, ROLE: "sentinel"}, ingress=[{}])


def _policy(
    identity: Identity,
    name: str,
    selects: Mapping[str, str],
    *,
    ingress: list[Json] | None = None,
    egress: list[Json] | None = None,
) -> Manifest:
    spec: Manifest = {"podSelector": {"matchLabels": dict(selects)}}
    rules = {"Ingress": ingress, "Egress": egress}
    spec["policyTypes"] = [kind for kind, given in rules.items() if given is not None]
    spec |= {kind.lower(): given for kind, given in rules.items() if given is not None}
    return {
        "apiVersion": GROUP,
        "kind": "NetworkPolicy",
        "metadata": identity.metadata(name),
        "spec": spec,
    }
