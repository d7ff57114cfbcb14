"""Who took a sandbox away while anybody needed it, where the host can tell.

Invariant: a `Loss` is evidence that nothing inside the sandbox can produce. It masks a trial, so an environment that
cannot tell for certain says nothing, and the loss is the policy's. Each environment finds its own: a signal from
outside, a container that was removed, a pod that was evicted, a daemon or a node that does not answer.

A loss is a `Completed`'s where a program ran, and else the error of whatever could not be done: files in or out, the
kill, the snapshot, the report. Harbor keeps no more of an error than the name of its class, so each cause has one.
"""

from dataclasses import dataclass
from enum import StrEnum

from lego_rl.errors import SandboxError


class LossCause(StrEnum):
    """What took a sandbox away."""

    KILLED = "killed"
    """Somebody outside ended this one: by a signal, an eviction, a removal."""
    RUNTIME = "runtime"
    """What runs it is gone, and with it, as a rule, others: the container daemon or the node is down."""


@dataclass(frozen=True)
class Loss:
    """The host's evidence of who ended a sandbox.

    Attributes:
        cause: What took it away.
        found: What the host saw, in one line.
    """

    cause: LossCause
    found: str


class SandboxLostError(SandboxError):
    """A sandbox was taken away; `lost` makes the error of its cause.

    Args:
        loss: The host's evidence.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__(f"the sandbox was lost: {loss.found}", "look for what ends processes or daemons here")
        self.loss = loss


class SandboxKilledError(SandboxLostError):
    """Somebody outside ended the sandbox."""


class RuntimeLostError(SandboxLostError):
    """What ran the sandbox is gone."""


_ERRORS = {LossCause.KILLED: SandboxKilledError, LossCause.RUNTIME: RuntimeLostError}


def lost(loss: Loss) -> SandboxLostError:
    """The error of a loss, of the class that says its cause."""
    return _ERRORS[loss.cause](loss)
