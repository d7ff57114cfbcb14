"""How everything that Lego-RL makes in a daemon is named and labelled, and how it is found again.

Invariant: what is removed was made by Lego-RL for the same state folder, and its owner is dead for certain; a container
of anybody else, of another state folder or of an owner that lives or cannot be told from here, is never touched. A
container has the labels of its image as well, so labels alone prove nothing: its name has to fit them.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lego_rl.owner import is_dead, own_stamp
from lego_rl.sandbox.docker.answers import ListedContainer
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.state import RunFolder, State

STATE, OWNER, SANDBOX = "lego-rl.state", "lego-rl.owner", "lego-rl.sandbox"
IMAGE = "lego-rl.image"
"""Of images, which belong to nobody: what they were made for. No container is ever removed for it."""

QUIET_SECONDS, REAP_SECONDS = 1.0, 20.0
"""How long nothing may come up until a daemon has made all that a killed owner asked it for, and how long that is
waited for at most."""
PAUSE_SECONDS = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mark:
    """Whose something in a daemon is.

    Attributes:
        state: The folder of the sandbox's files.
        sandbox: Its name there, or a name of the same kind for what belongs to no sandbox.
    """

    state: State
    sandbox: str

    @classmethod
    def of_run(cls, state: State, run: RunFolder) -> "Mark":
        """Of what belongs to a sandbox."""
        return cls(state, run.path.name)

    @classmethod
    def of_this_process(cls, state: State) -> "Mark":
        """Of what belongs to no sandbox."""
        return cls(state, f"{own_stamp()}-{uuid.uuid4().hex[:8]}")

    def name(self, part: str = "") -> str:
        """What a container is called.

        Args:
            part: What it is for, where it is not the sandbox itself.
        """
        return "-".join(filter(None, ("lego-rl", self.sandbox, part)))

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a container and its volumes."""
        return {STATE: str(self.state.root.resolve()), OWNER: own_stamp(), SANDBOX: self.sandbox}


def reap(engine: Engine, state: State) -> list[str]:
    """Remove the containers and volumes that killed owners left.

    Where an owner was killed with sandboxes in flight, the daemon may still be making what it was asked for: it is
    looked at until nothing has come up for a while. What comes later still was never started, and is found next time.

    Returns:
        The names of the sandboxes that they were of.

    Raises:
        DaemonError: The daemon cannot be asked what there is.
    """
    removed, refused = set[str](), dict[str, str]()
    end = time.monotonic() + (REAP_SECONDS if state.stale() else 0)
    quiet_at = time.monotonic() + QUIET_SECONDS
    while True:
        refused.clear()
        if _removed(engine, state, removed, refused):
            quiet_at = time.monotonic() + QUIET_SECONDS
        if time.monotonic() >= min(end, quiet_at):
            break
        time.sleep(PAUSE_SECONDS)
    for name, why in refused.items():
        _log.warning("%s is left for the next run to remove: %s", name, why)
    return sorted(removed)


def _removed(engine: Engine, state: State, removed: set[str], refused: dict[str, str]) -> bool:
    """Remove what is there; whether anything was."""
    mine = {STATE: str(state.root.resolve())}
    containers = [one for one in engine.containers(mine) if _is_stale(one.labels) and _is_named(one, state)]
    for found in containers:
        if _done(engine.remove, found.id, refused):
            removed.add(_sandbox_of(found))
    volumes = [found.name for found in engine.volumes(mine) if _is_stale(found.labels)]
    for name in volumes:
        _done(engine.remove_volume, name, refused)
    return bool(containers or volumes)


def _is_stale(labels: Mapping[str, str] | None) -> bool:
    return is_dead((labels or {}).get(OWNER, ""))


def _sandbox_of(container: ListedContainer) -> str:
    return (container.labels or {}).get(SANDBOX, "?")


def _is_named(container: ListedContainer, state: State) -> bool:
    """Whether a container has a name of ours, which no image can give it."""
    own = Mark(state, _sandbox_of(container)).name()
    return any(name.removeprefix("/").startswith(own) for name in container.names or ())


def _done(remove: Callable[[str], None], name: str, refused: dict[str, str]) -> bool:
    try:
        remove(name)
    except DaemonError as error:
        refused[name] = str(error)
        return False
    return True
