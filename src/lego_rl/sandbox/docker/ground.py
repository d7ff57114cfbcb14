"""What a container starts from."""

from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.root import Root
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain


@dataclass(frozen=True)
class Ground:
    """See `Tree`.

    Attributes:
        engine: The daemon.
        root: Root file system.
        image: Work tree, its git directories, and environment variables.
        toolchain: The Python that the first process runs on.
        state: Where containers keep their files.
        uid: Who the agent is, inside and on the host.
    """

    engine: Engine
    root: Root
    image: Image
    toolchain: Toolchain
    state: State
    uid: int

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
