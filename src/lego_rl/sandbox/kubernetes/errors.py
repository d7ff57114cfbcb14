"""What an API server answers when it does not do what it is asked."""

from lego_rl.sandbox.lack import RemoteError

ROLE = "kubectl apply -f role.yaml, with the role of docs/kubernetes.md"


class ClusterError(RemoteError):
    """The cluster could not do its part: a fault of the infrastructure, whatever a pod did. It holds every pod to its
    own share of a node's processors.

    Attributes:
        status: The HTTP status; ``None`` where there was no answer at all.
    """

    def __init__(self, problem: str, fix: str, status: int | None = None) -> None:
        super().__init__(problem, fix)
        self.status = status


def refused(method: str, path: str, status: int, message: str) -> ClusterError:
    """The error for an answer that is no success."""
    said = " ".join(message.split())[:300] or "it gave no reason"
    match status:
        case 401:
            return ClusterError(
                f"the cluster does not know who asks: {said}", "log in again, or mend the kubeconfig's user", status
            )
        case 403:
            return ClusterError(f"the cluster forbids it: {said}", f"run: {ROLE}", status)
        case 404:
            return ClusterError(f"the cluster has no {path}: {said}", "look at sandbox.kubernetes.namespace", status)
        case 400 | 422:
            return ClusterError(f"the cluster refuses {method} {path}: {said}", "mend what it names", status)
    return ClusterError(f"the cluster answered {status} to {method} {path}: {said}", "look at its API server", status)


def unreachable(host: str, reason: object) -> ClusterError:
    """The error for an API server that does not answer."""
    return ClusterError(f"the cluster at {host} does not answer: {reason}", "run: kubectl cluster-info")
