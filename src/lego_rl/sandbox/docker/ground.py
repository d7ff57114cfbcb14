"""What a container starts from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.root import Root
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain


@dataclass(frozen=True)
class Ground:
    """See `Tree`.

    Attributes:
        engine: The daemon.
        root: Root file system.
        pristine: The work tree before anyone touched it.
        workdir: Where the work tree is inside.
        env: The image's own environment variables.
        toolchain: The Python that the first process runs on.
        state: Where containers keep their files.
        uid: Who the agent is, inside and on the host.
    """

    engine: Engine
    root: Root
    pristine: Path
    workdir: str
    env: Mapping[str, str]
    toolchain: Toolchain
    state: State
    uid: int
