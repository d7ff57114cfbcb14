"""A run's presence on a cluster: what its sandboxes share, kept as long as there are any.

Invariant: before the first pod of a run exists, its default-deny policy does; everything belongs to the run's lease,
which is renewed while this process lives and deleted when the last sandbox is gone.
"""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from lego_rl.sandbox.kubernetes import lease, manifests, policies
from lego_rl.sandbox.kubernetes.address import advertised, cluster_addresses
from lego_rl.sandbox.kubernetes.answers import Lease, Pod, read
from lego_rl.sandbox.kubernetes.api import Api, Manifest
from lego_rl.sandbox.kubernetes.errors import ClusterError
from lego_rl.sandbox.kubernetes.labels import LEGO, MANAGED_BY, OWNER, RUN, Identity, new_name, owner_of, selector
from lego_rl.sandbox.kubernetes.pod_status import cannot_start
from lego_rl.sandbox.kubernetes.pods import Pods
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.kubernetes.stream import PodStream
from lego_rl.sandbox.transfer import operate

LINGER_SECONDS = 20.0
"""How long a run stays when its last sandbox is gone: the next trial often comes at once."""
LEAVE_SECONDS = 10.0
USER_NAMESPACES_SINCE = (1, 33)
_log = logging.getLogger(__name__)


class Run:
    """The objects that the sandboxes of one process and event loop share; made by `use`.

    Attributes:
        api: The cluster.
        identity: Labels and owner of everything.
        pods: What the cluster says of the run's pods.
        address: At which pods reach this machine.
        user_namespaces: Whether pods get one.
    """

    def __init__(self, api: Api, settings: KubernetesSettings, owned: Lease, *, user_namespaces: bool) -> None:
        self.api = api
        self.settings = settings
        self.identity = replace(_identity(settings, owned.metadata.name), owner=lease.reference(owned))
        self.pods = Pods(api, selector({RUN: self.identity.run}))
        self.address = advertised(settings, api.cluster.host)
        self.user_namespaces = user_namespaces
        self.users = 0
        self.idle = asyncio.Event()
        self._lease = owned
        self._asking = asyncio.Lock()
        self._has_sentinel = False
        self._neighbours: tuple[tuple[str, int], ...] | None = None

    async def policy(self, manifest: Manifest) -> None:
        """Create a network policy."""
        await self.api.create(self.api.path(policies.GROUP, "networkpolicies"), manifest)

    async def ensure_sentinel(self, image: str) -> None:
        """Have the neighbour that no agent may reach, on the first image that a sandbox has."""
        async with self._asking:
            if not self._has_sentinel:
                pod = manifests.sentinel_pod(self.identity, image, self.settings, user_namespaces=self.user_namespaces)
                await self.api.create(self.api.path("v1", "pods"), pod)
                self._has_sentinel = True

    async def neighbours(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports of the cluster's own that no agent may reach: asked for once.

        Raises:
            SandboxError: The neighbour does not come up, or cannot say what it knows.
        """
        async with self._asking:
            if self._neighbours is None:
                self._neighbours = await self._ask_sentinel()
        return self._neighbours

    async def _ask_sentinel(self) -> tuple[tuple[str, int], ...]:
        name = f"{self.identity.run}-sentinel"

        def ready(pod: Pod | None) -> Pod | None:
            if pod is None:
                return None
            if (stuck := cannot_start(pod)) is not None:
                raise ClusterError(f"pod {name} does not start: {stuck[0]}", stuck[1])
            conditions = pod.status.conditions or ()
            is_ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
            return pod if is_ready and pod.status.pod_ip else None

        try:
            async with asyncio.timeout(self.settings.start_sec):
                pod = await self.pods.wait(name, ready)
        except TimeoutError as error:
            raise ClusterError(f"pod {name} does not take connections", f"kubectl describe pod {name}") from error
        argv = [self.settings.python, "-I", "-S", f"{manifests.PROGRAMS}/bridge.py"]
        stream = await PodStream.open(await self.api.stream(name, "sentinel", argv))
        try:
            variables = (await operate(stream.channel, ["environ", ""])).decode(errors="replace").split("\0")
            resolvers = (await operate(stream.channel, ["resolver", ""])).decode(errors="replace").splitlines()
        finally:
            await stream.close()
        return await asyncio.to_thread(
            cluster_addresses,
            self.api.cluster.host,
            dict(line.partition("=")[::2] for line in variables),
            resolvers,
            pod.status.pod_ip,
        )

    async def keep(self, forget: Callable[[], None]) -> None:
        """Renew the lease until nobody has used the run for a while, or the event loop ends; then delete it all.

        Args:
            forget: Sees to it that nobody new uses the run.
        """
        try:
            while True:
                try:
                    await asyncio.wait_for(self.idle.wait(), lease.RENEW_SECONDS)
                    await asyncio.sleep(LINGER_SECONDS)
                    if not self.users:
                        return
                except TimeoutError:
                    pass
                try:
                    await lease.renew(self.api, self._lease)
                except ClusterError as error:
                    lease.log_lost(error)
        finally:
            forget()
            with suppress(ClusterError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    metadata = self._lease.metadata
                    await self.api.delete(self.api.path(lease.GROUP, "leases", metadata.name), uid=metadata.uid)
            await self.pods.close()
            await self.api.close()


class _Registry:
    """The runs of one event loop, by their settings."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.runs: dict[str, Run] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def forget(self, key: str) -> None:
        """Let nobody new have a run."""
        self.runs.pop(key, None)


_registries: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Registry]" = weakref.WeakKeyDictionary()


@asynccontextmanager
async def use(settings: KubernetesSettings) -> AsyncIterator[Run]:
    """The run of this event loop with these settings, held while the context lasts.

    Raises:
        SandboxError: The cluster cannot be reached, or forbids what a run needs.
    """
    run = await hold(settings)
    try:
        yield run
    finally:
        release(run)


async def hold(settings: KubernetesSettings) -> Run:
    """As `use`, until `release` is called.

    Raises:
        SandboxError: The cluster cannot be reached, or forbids what a run needs.
    """
    registry = _registries.setdefault(asyncio.get_running_loop(), _Registry())
    key = settings.model_dump_json()
    async with registry.lock:
        run = registry.runs.get(key)
        if run is None:
            run = registry.runs[key] = await _start(settings)
            task = asyncio.create_task(run.keep(lambda: registry.forget(key)))
            registry.tasks.add(task)
            task.add_done_callback(registry.tasks.discard)
        run.users += 1
        run.idle.clear()
        return run


def release(run: Run) -> None:
    """Give a run back that `hold` gave."""
    run.users -= 1
    if not run.users:
        run.idle.set()


async def _start(settings: KubernetesSettings) -> Run:
    api = await Api.connect(settings)
    try:
        supported = settings.user_namespaces == "supported" and await api.version() >= USER_NAMESPACES_SINCE
        identity = _identity(settings, new_name())
        owned = read(Lease, await api.create(api.path(lease.GROUP, "leases"), lease.new_lease(identity)))
        run = Run(api, settings, owned, user_namespaces=supported)
        try:
            await api.create(api.path("v1", "configmaps"), manifests.programs(run.identity))
            await run.policy(policies.deny_all(run.identity))
            await run.policy(policies.sentinel_policy(run.identity))
        except BaseException:
            await run.pods.close()
            await api.delete(api.path(lease.GROUP, "leases", owned.metadata.name))
            raise
    except BaseException:
        await api.close()
        raise
    return run


def _identity(settings: KubernetesSettings, name: str) -> Identity:
    return Identity(name, {MANAGED_BY: LEGO, OWNER: owner_of(settings), RUN: name})
