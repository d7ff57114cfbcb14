"""What the daemon knows of how a container ended.

Invariant: a daemon that is gone, or has forgotten the container, is evidence of nothing but that; and it is not gone
where this process could not ask it.
"""

import http.client
import logging
from dataclasses import dataclass

from lego_rl.sandbox import lack
from lego_rl.sandbox.docker.engine import DaemonError, Engine
from lego_rl.sandbox.loss import Loss, LossCause
from lego_rl.sandbox.outside_kill import outside_kill

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a container ended.

    Attributes:
        out_of_memory: The kernel killed something in it for its memory; Docker still knows that when the control
            groups are gone.
        loss: Who took it away, where that was not the container itself.
    """

    out_of_memory: bool = False
    loss: Loss | None = None


def ending_of(engine: Engine, name: str) -> Ending:
    """Ask how a container ended whose first process is dead.

    Args:
        engine: The daemon.
        name: The container's.
    """
    try:
        engine.wait(name)
        state = engine.container(name).state
    except DaemonError as error:
        _log.warning("how container %s ended cannot be asked for: %s", name, error)
        return Ending(loss=_without_answer(error))
    if state.out_of_memory:
        return Ending(out_of_memory=True)
    return Ending(loss=outside_kill(state.exit_code))


def _without_answer(error: DaemonError) -> Loss | None:
    """What it says that a daemon cannot say how a container ended. Nothing inside can reach the daemon, to have it
    remove a container, or end it. Load can make one slower than a call may take, but then it has not ended this
    container, and there is no other way to. Of a daemon that answers anything else nothing is known."""
    if error.status == http.client.NOT_FOUND:
        return Loss(LossCause.KILLED, "the container was removed")
    return (
        None
        if error.status or lack.is_own(error)
        else Loss(LossCause.RUNTIME, f"the daemon does not answer: {error.problem}")
    )
