"""Who took a sandbox away while a program ran in it, where the host can tell.

Invariant: a `Loss` is evidence that nothing inside the sandbox can produce. It masks a trial, so an environment that
cannot tell for certain says nothing, and the loss is the policy's. Each environment finds its own: a signal from
outside, a container that was removed, a pod that was evicted, a daemon or a node that does not answer.
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
    """A sandbox was taken away while files went in or out.

    Args:
        loss: The host's evidence.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__(f"the sandbox was lost: {loss.found}", "look for what ends processes or daemons here")
        self.loss = loss
