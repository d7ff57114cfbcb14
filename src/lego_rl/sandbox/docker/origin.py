"""What a container starts from."""

from dataclasses import dataclass

from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.root import Root
from lego_rl.sandbox.image import PreparedTree
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain


@dataclass(frozen=True)
class Origin(PreparedTree):
    """See `Tree`.

    Attributes:
        engine: The daemon.
        root: Root file system.
        toolchain: The Python that the first process runs on.
        state: Where containers keep their files.
        uid: Who the agent is, inside and on the host.
    """

    engine: Engine
    root: Root
    toolchain: Toolchain
    state: State
    uid: int
