"""Docker as a way to isolate: for tasks that come as images."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.ground import Ground
from lego_rl.sandbox.docker.image import HOST, prepare
from lego_rl.sandbox.docker.labels import reap
from lego_rl.sandbox.docker.preflight import check_daemon
from lego_rl.sandbox.docker.root import host_root
from lego_rl.sandbox.docker.sweep import sweep
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.probe import WORKDIR, probe
from lego_rl.sandbox.sandbox import Phase, check_phase
from lego_rl.sandbox.state import State, owner_uid
from lego_rl.sandbox.toolchain import prepare_toolchain
from lego_rl.tasks.history import History
from lego_rl.tasks.network import NO_NETWORK, Network


@dataclass(frozen=True)
class DockerImage:
    """See `TaskImage`.

    Attributes:
        ground: What its containers start from.
        services: Where hosts are that tasks name, if not where their names lead (`SandboxSettings.services`).
    """

    ground: Ground
    services: Mapping[str, str] = field(default_factory=dict)

    @property
    def pristine(self) -> Path:
        """See `Tree`."""
        return self.ground.pristine

    @property
    def workdir(self) -> str:
        """See `Tree`."""
        return self.ground.workdir

    @property
    def history(self) -> HistorySeal:
        """See `Tree`."""
        return self.ground.history

    async def start(
        self,
        phase: Phase,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        network: Network = NO_NETWORK,
    ) -> DockerSandbox:
        """See `TaskImage.start`."""
        check_phase(phase, network)
        return await DockerSandbox.start(
            self.ground, phase, network, mounts=mounts, limits=limits, services=self.services
        )


@dataclass(frozen=True)
class DockerProvider:
    """See `Provider`.

    Attributes:
        state: Folder for caches and run folders.
        engine: The daemon, on this machine.
        base: Root file system of tasks whose Dockerfile needs no build (`image.HOST`, `image.TASK`, or an image).
        services: See `SandboxSettings.services`.
    """

    state: State
    engine: Engine
    base: str = HOST
    services: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """See `Provider.check`."""
        check_daemon(self.engine)

    def check_network(self, network: Network) -> None:
        """See `Provider.check_network`: there is no network that a container cannot be given."""

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History | None = None
    ) -> DockerImage:
        """See `Provider.prepare`."""
        return DockerImage(
            prepare(
                self.engine,
                environment,
                self.state,
                base=self.base,
                workdir=workdir,
                docker_image=docker_image,
                history=history or History(),
            ),
            self.services,
        )

    async def probe(self) -> LimitReport:
        """See `Provider.probe`."""
        await asyncio.to_thread(self.check)
        return await probe(self._around, self.state)

    def reap(self) -> list[str]:
        """See `Provider.reap`."""
        # First the containers: they may still use the folders.
        containers = reap(self.engine, self.state)
        for run in self.state.stale():
            sweep(self.engine, self.state, run)
        return sorted({*containers, *self.state.reap_stale()})

    def _around(self, tree: Path) -> DockerImage:
        uid = owner_uid()
        root = host_root(self.engine, self.state, uid)
        return DockerImage(
            Ground(self.engine, root, Image(None, tree, WORKDIR), prepare_toolchain(self.state), self.state, uid)
        )
