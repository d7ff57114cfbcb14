"""By what the containers and volumes of Lego-RL are found again, and whose they are.

Invariant: what is removed belonged to a sandbox of the same state folder whose owner is dead for certain; a container
of anybody else, of another state folder or of an owner that lives or cannot be told from here, is never touched.
"""

import logging
from collections.abc import Callable, Mapping

from lego_rl.owner import is_dead, own_stamp
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.state import RunFolder, State

STATE, OWNER, SANDBOX = "lego-rl.state", "lego-rl.owner", "lego-rl.sandbox"

_log = logging.getLogger(__name__)


def labels_of(state: State, run: RunFolder) -> dict[str, str]:
    """The labels of a sandbox of this process."""
    return {STATE: str(state.root.resolve()), OWNER: own_stamp(), SANDBOX: run.path.name}


def reap(engine: Engine, state: State) -> list[str]:
    """Remove the containers and volumes that killed owners left.

    Returns:
        The names of the sandboxes that they were of.

    Raises:
        DaemonError: The daemon cannot be asked what there is.
    """
    mine = {STATE: str(state.root.resolve())}
    removed = []
    for found in engine.containers(mine):
        if _is_stale(found["Labels"]) and _done(engine.remove, found["Id"]):
            removed.append(found["Labels"].get(SANDBOX, found["Id"]))
    for found in engine.volumes(mine):
        if _is_stale(found["Labels"]):
            _done(engine.remove_volume, found["Name"])
    return removed


def _is_stale(labels: Mapping[str, str]) -> bool:
    return is_dead(labels.get(OWNER, ""))


def _done(remove: Callable[[str], None], name: str) -> bool:
    try:
        remove(name)
    except DaemonError as error:
        _log.warning("%s is left for the next run to remove: %s", name, error)
        return False
    return True
