"""Kubernetes as a way to isolate: for runs that need more machines than one."""

from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.kubernetes import lease
from lego_rl.sandbox.kubernetes.access import check_access
from lego_rl.sandbox.kubernetes.api import Api
from lego_rl.sandbox.kubernetes.blocking import in_a_loop_of_its_own
from lego_rl.sandbox.kubernetes.image import KubernetesImage, check_network, named_image, prepare
from lego_rl.sandbox.kubernetes.labels import owner_of
from lego_rl.sandbox.kubernetes.settings import KubernetesSettings
from lego_rl.sandbox.limits import LimitReport
from lego_rl.sandbox.probe import PROBE_SECONDS, WORKDIR, probe
from lego_rl.sandbox.sandbox import Sandbox
from lego_rl.sandbox.state import State
from lego_rl.tasks.history import DEFAULT_HISTORY, History
from lego_rl.tasks.network import Network

FORKS = 'i=0; while [ $i -lt "$1" ]; do sleep 20 & i=$((i+1)); done'
"""Starts as many processes as it is told; a shell that cannot start one ends with an error."""


@dataclass(frozen=True)
class KubernetesProvider:
    """See `Provider`.

    Attributes:
        state: Folder for the work trees of images.
        settings: The cluster.
    """

    state: State
    settings: KubernetesSettings

    def check(self) -> None:
        """See `Provider.check`."""
        in_a_loop_of_its_own(check_access(self.settings))
        check_state_folder(self.state.root)

    def check_network(self, network: Network) -> None:
        """See `Provider.check_network`."""
        check_network(network)

    def check_image(self, environment: Path, *, workdir: str, docker_image: str | None = None) -> None:
        """See `Provider.check_image`."""
        named_image(self.settings, environment, workdir=workdir, docker_image=docker_image)

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History = DEFAULT_HISTORY
    ) -> KubernetesImage:
        """See `Provider.prepare`."""
        return prepare(
            self.settings, self.state, environment, workdir=workdir, docker_image=docker_image, history=history
        )

    async def probe(self) -> LimitReport:
        """See `Provider.probe`."""
        await check_access(self.settings)
        return await probe(self._around, self.state, also=_bounds_processes)

    def reap(self) -> list[str]:
        """See `Provider.reap`."""
        return [*in_a_loop_of_its_own(self._reap()), *self.state.reap_stale()]

    def _around(self, tree: Path) -> KubernetesImage:
        return self.prepare(tree.parent, workdir=WORKDIR)

    async def _reap(self) -> list[str]:
        async with await Api.connect(self.settings) as api:
            return await lease.reap(api, owner_of(self.settings))


async def _bounds_processes(box: Sandbox) -> None:
    """See whether a pod is held to its processes, which nothing but a setting of its node does.

    Raises:
        SandboxError: It is not.
    """
    forked = await box.exec(["sh", "-c", FORKS, "sh", str(box.limits.processes)], timeout_sec=PROBE_SECONDS)
    if forked.returncode == 0:
        raise SandboxError(
            f"a pod may have more than {box.limits.processes} processes",
            "set podPidsLimit in the configuration of the nodes' kubelets, or sandbox.processes to what it is",
        )
