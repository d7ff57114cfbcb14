"""What a network plug-in does about network policies, in small: rules of the cluster's own network namespace.

Invariant: a pod that it does not know yet has no network. Understood is what the policies of Lego-RL and a few tests
say: pods by label, any address or one block, any port or some.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from kube_cluster import Cluster

PODS = "10.88.0.0/16"
PAUSE_SECONDS = 0.15


class PolicyAgent:
    """Follows the policies of a cluster until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._enforced = ""
        self.enforcing = True
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the rules as they are."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            with contextlib.suppress(OSError, RuntimeError):
                rules = "\n".join(self._table()) + "\n"
                if rules != self._enforced:
                    self._cluster.run("iptables-restore", text=rules)
                    self._enforced = rules

    def _table(self) -> Iterator[str]:
        yield from ("*filter", ":FORWARD ACCEPT", ":INPUT ACCEPT", ":OUT -", ":IN -")
        if self.enforcing:
            policies = [each["spec"] for each in self._cluster.objects("networkpolicies", "apis/networking.k8s.io/v1")]
            pods = [pod for pod in self._cluster.objects("pods") if pod["status"].get("podIP")]
            for chain in ("FORWARD", "INPUT"):
                yield f"-A {chain} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"
                yield f"-A {chain} -j OUT"
            yield "-A FORWARD -j IN"
            for pod in pods:
                selecting = [spec for spec in policies if _selects(spec, pod)]
                yield from _rules("OUT", "-s", "-d", "egress", "to", selecting, pod["status"]["podIP"])
                yield from _rules("IN", "-d", "-s", "ingress", "from", selecting, pod["status"]["podIP"])
            yield f"-A OUT -s {PODS} -j DROP"
            yield f"-A IN -d {PODS} -j DROP"
        yield "COMMIT"


def _selects(spec: dict[str, Any], pod: dict[str, Any]) -> bool:
    wanted = spec["podSelector"].get("matchLabels", {})
    return wanted.items() <= pod["metadata"].get("labels", {}).items()


def _rules(
    chain: str, own: str, peer: str, direction: str, peers: str, selecting: list[dict[str, Any]], address: str
) -> Iterator[str]:
    isolating = [spec for spec in selecting if direction.capitalize() in spec["policyTypes"]]
    for spec in isolating:
        for rule in spec.get(direction) or ():
            blocks = [each["ipBlock"]["cidr"] for each in rule.get(peers, ())] or ["0.0.0.0/0"]
            ports = [f"-p {each['protocol'].lower()} --dport {each['port']}" for each in rule.get("ports", ())] or [""]
            for block in blocks:
                for port in ports:
                    yield f"-A {chain} {own} {address} {peer} {block} {port} -j RETURN"
    yield f"-A {chain} {own} {address} -j {'DROP' if isolating else 'RETURN'}"
