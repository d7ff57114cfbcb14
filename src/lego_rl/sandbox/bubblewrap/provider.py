"""Bubblewrap as a way to isolate: the default, fast, without a daemon."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.errors import UnservedTaskError
from lego_rl.sandbox.bubblewrap.image import BubblewrapImage, check_network
from lego_rl.sandbox.bubblewrap.preflight import check_machine
from lego_rl.sandbox.copies import copied, recipe_of
from lego_rl.sandbox.disk import check_state_folder
from lego_rl.sandbox.image import Image, check_rootfs, prepare_image
from lego_rl.sandbox.limits import LimitReport
from lego_rl.sandbox.probe import WORKDIR, probe
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import prepare_toolchain
from lego_rl.tasks.history import DEFAULT_HISTORY, History
from lego_rl.tasks.network import Network


@dataclass(frozen=True)
class BubblewrapProvider:
    """See `Provider`.

    Attributes:
        state: Folder for caches and run folders.
        rootfs: Folder of an unpacked image; the host's own programs without it.
        services: See `SandboxSettings.services`.
    """

    state: State
    rootfs: Path | None = None
    services: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """See `Provider.check`."""
        check_machine()
        check_state_folder(self.state.root)
        if self.rootfs is not None:
            check_rootfs(self.rootfs)

    def check_network(self, network: Network) -> None:
        """See `Provider.check_network`."""
        check_network(network)

    def check_image(self, environment: Path, *, workdir: str, docker_image: str | None = None) -> None:
        """See `Provider.check_image`."""
        self._check_named(environment, docker_image)
        copied(environment, recipe_of(environment, workdir))

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History = DEFAULT_HISTORY
    ) -> BubblewrapImage:
        """See `Provider.prepare`; an image is not pulled: unpacked, it is the `rootfs`."""
        self._check_named(environment, docker_image)
        return BubblewrapImage(
            prepare_image(environment, self.state, workdir=workdir, rootfs=self.rootfs, history=history),
            prepare_toolchain(self.state, below_folder_root=self.rootfs is not None),
            self.state,
            self.services,
        )

    def _check_named(self, environment: Path, docker_image: str | None) -> None:
        if docker_image and self.rootfs is None:
            raise UnservedTaskError(
                f"task {environment.parent.name} needs the image {docker_image}",
                "unpack it and give the folder as sandbox.rootfs, or use Docker",
            )

    async def probe(self) -> LimitReport:
        """See `Provider.probe`."""
        await asyncio.to_thread(self.check)
        return await probe(self._around, self.state)

    def _around(self, tree: Path) -> BubblewrapImage:
        return BubblewrapImage(Image(None, tree, WORKDIR), prepare_toolchain(self.state), self.state)

    def reap(self) -> list[str]:
        """See `Provider.reap`."""
        return self.state.reap_stale()
