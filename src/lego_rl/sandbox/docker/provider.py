"""Docker as a way to isolate: for tasks that come as images."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.image import HOST, DockerImage, ImageMaker
from lego_rl.sandbox.docker.labels import reap
from lego_rl.sandbox.docker.preflight import check_daemon
from lego_rl.sandbox.docker.root import host_root
from lego_rl.sandbox.docker.sweep import sweep
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import LimitReport
from lego_rl.sandbox.outside_user import owner_uid
from lego_rl.sandbox.probe import WORKDIR, probe
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import prepare_toolchain
from lego_rl.tasks.history import DEFAULT_HISTORY, History
from lego_rl.tasks.network import Network


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
        check_state_folder(self.state.root)

    def check_network(self, network: Network) -> None:
        """See `Provider.check_network`: there is no network that a container cannot be given."""

    def check_image(self, environment: Path, *, workdir: str, docker_image: str | None = None) -> None:
        """See `Provider.check_image`."""
        self._maker(environment, workdir).check(docker_image, self.base)

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History = DEFAULT_HISTORY
    ) -> DockerImage:
        """See `Provider.prepare`."""
        return self._maker(environment, workdir, history).made(docker_image, self.base)

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

    def _maker(self, environment: Path, workdir: str, history: History = DEFAULT_HISTORY) -> ImageMaker:
        return ImageMaker(self.engine, self.state, self.services, environment, workdir, history)

    def _around(self, tree: Path) -> DockerImage:
        uid = owner_uid()
        return DockerImage(
            prepared=Image(None, tree, WORKDIR),
            engine=self.engine,
            root=host_root(self.engine, self.state, uid),
            toolchain=prepare_toolchain(self.state),
            state=self.state,
            uid=uid,
        )
