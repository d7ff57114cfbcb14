"""How to reach a cluster: address, certificates and credentials, by the rules that kubectl has."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lego_rl.errors import SandboxError
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration

DEFAULT_NAMESPACE = "default"
INSTALL = "uv pip install 'lego-rl[kubernetes]'"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials(Protocol):
    """A source of the header that says who asks; a token may be renewed while a run lasts."""

    async def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The header's value."""
        ...


@dataclass(frozen=True)
class Connection:
    """A cluster.

    Attributes:
        host: URL of the API server.
        tls: How it is trusted and told who asks; ``None`` for plain HTTP.
        server_name: The name that its certificate is for, where it is not that of the URL.
        proxy: URL of a proxy to it.
        credentials: Where the authorization header comes from.
        namespace: Where everything is created.
    """

    host: str
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None
    credentials: Credentials
    namespace: str

    async def headers(self) -> dict[str, str]:
        """What every request carries."""
        token = await self.credentials.get_api_key_with_prefix("BearerToken")
        return {"Authorization": token} if token else {}


async def connection(settings: KubernetesSettings) -> Connection:
    """Read the kubeconfig, or the service account that a pod has.

    Raises:
        SandboxError: There is neither, or one that cannot be used.
    """
    try:
        from kubernetes_asyncio.client.configuration import Configuration
        from kubernetes_asyncio.config import ConfigException
    except ImportError as error:
        raise SandboxError("the Kubernetes client is not installed", f"run: {INSTALL}") from error
    configuration = Configuration()
    try:
        namespace = await _load(configuration, settings)
        host = str(configuration.host).rstrip("/")
        tls = _tls(configuration) if host.startswith("https:") else None
    except (ConfigException, OSError, ValueError) as error:
        raise SandboxError(
            f"the kubeconfig cannot be used: {' '.join(str(error).split())}",
            "check it with: kubectl cluster-info",
        ) from error
    return Connection(
        host,
        tls,
        configuration.tls_server_name,
        configuration.proxy,
        configuration,
        settings.namespace or namespace or DEFAULT_NAMESPACE,
    )


async def _load(configuration: "Configuration", settings: KubernetesSettings) -> str | None:
    """Fill `configuration`; the namespace that goes with it."""
    from kubernetes_asyncio.config import load_kube_config
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
    from kubernetes_asyncio.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION

    named = str(settings.kubeconfig) if settings.kubeconfig is not None else KUBE_CONFIG_DEFAULT_LOCATION
    if not _any_file(named):
        if settings.kubeconfig is None and _any_file(str(SERVICE_ACCOUNT / "token")):
            InClusterConfigLoader(str(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt")).load_and_set(
                configuration
            )
            return (SERVICE_ACCOUNT / "namespace").read_text().strip()
        raise SandboxError(
            f"there is no kubeconfig ({named})", "copy the cluster's there, or name it as sandbox.kubernetes.kubeconfig"
        )
    loader = await load_kube_config(
        config_file=named, context=settings.context, client_configuration=configuration, persist_config=False
    )
    current = loader.current_context or {}
    namespace = current["context"].get("namespace")
    return str(namespace) if namespace else None


def _any_file(paths: str) -> bool:
    return any(Path(part).expanduser().is_file() for part in paths.split(os.pathsep) if part)


def _tls(configuration: "Configuration") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Clusters sign their own certificates, and many of those lack extensions that the strict rules ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
