"""Bubblewrap as a way to isolate: the default, fast, without a daemon."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.bubblewrap.preflight import check_machine
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.image import Image, check_rootfs, prepare_image
from lego_rl.sandbox.limits import LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.probe import WORKDIR, probe
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain, prepare_toolchain
from lego_rl.tasks.history import History


@dataclass(frozen=True)
class BubblewrapImage:
    """See `TaskImage`.

    Attributes:
        image: Where its sandboxes start.
        toolchain: The Python that they have.
        state: Where they keep their files.
    """

    image: Image
    toolchain: Toolchain
    state: State

    @property
    def pristine(self) -> Path:
        """See `Tree`."""
        return self.image.pristine

    @property
    def workdir(self) -> str:
        """See `Tree`."""
        return self.image.workdir

    @property
    def history(self) -> HistorySeal:
        """See `Tree`."""
        return self.image.history

    async def start(
        self, phase: Phase, *, mounts: Sequence[Mount] = (), limits: Limits | None = None
    ) -> BubblewrapSandbox:
        """See `TaskImage.start`. The calling thread must outlive the sandbox."""
        return await BubblewrapSandbox.start(
            self.image, self.toolchain, phase, mounts=mounts, limits=limits, state=self.state
        )


@dataclass(frozen=True)
class BubblewrapProvider:
    """See `Provider`.

    Attributes:
        state: Folder for caches and run folders.
        rootfs: Folder of an unpacked image; the host's own programs without it.
    """

    state: State
    rootfs: Path | None = None

    def check(self) -> None:
        """See `Provider.check`."""
        check_machine()
        if self.rootfs is not None:
            check_rootfs(self.rootfs)

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History | None = None
    ) -> BubblewrapImage:
        """See `Provider.prepare`; an image is not pulled: unpacked, it is the `rootfs`."""
        if docker_image and self.rootfs is None:
            raise SandboxError(
                f"task {environment.parent.name} needs the image {docker_image}",
                "unpack it and give the folder as sandbox.rootfs",
            )
        return BubblewrapImage(
            prepare_image(environment, self.state, workdir=workdir, rootfs=self.rootfs, history=history),
            prepare_toolchain(self.state, below_folder_root=self.rootfs is not None),
            self.state,
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
