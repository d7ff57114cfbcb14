"""Addresses of this machine and of a cluster."""

import errno
import socket
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from lego_rl.errors import SandboxError
from lego_rl.sandbox.kubernetes.manifests import SENTINEL_PORT
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

DNS_PORT = 53


def split_host(url: str) -> tuple[str, int]:
    """Host and port of an API server's URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def advertised(settings: KubernetesSettings, url: str) -> str:
    """The IPv4 address at which pods reach this machine.

    Raises:
        SandboxError: None is set, and none leads to the cluster.
    """
    if settings.advertise is not None:
        return settings.advertise
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(split_host(url))  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise SandboxError(
            f"no address of this machine leads to the cluster at {url}: {error}", "set sandbox.kubernetes.advertise"
        ) from error


def listener_at(address: str) -> socket.socket:
    """A socket that listens on a free port of an address; of every address where that one is another machine's."""
    try:
        return socket.create_server((address, 0), backlog=128)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return socket.create_server(("0.0.0.0", 0), backlog=128)


def cluster_addresses(
    host: str, variables: dict[str, str], resolvers: Sequence[str], neighbour: str
) -> tuple[tuple[str, int], ...]:
    """What a cluster has that an agent must not reach.

    Args:
        host: URL of the API server.
        variables: Of a container, which name the API server's service.
        resolvers: Name servers of a pod.
        neighbour: Address of another pod, which takes connections.

    Raises:
        SandboxError: A variable is no port.
    """
    service = variables.get("KUBERNETES_SERVICE_HOST")
    port = variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not (port.isascii() and port.isdecimal()):
        raise SandboxError(f"a pod has KUBERNETES_SERVICE_PORT={port!r}", "set no such variable in the task's image")
    found = [] if service is None else [(service, int(port))]
    return (*_numeric(host), *found, *((resolver, DNS_PORT) for resolver in resolvers), (neighbour, SENTINEL_PORT))


def _numeric(host: str) -> Iterator[tuple[str, int]]:
    """The addresses of an API server: a pod without a name service could try no name."""
    name, port = split_host(host)
    for *_, address in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM):
        yield str(address[0]), port
