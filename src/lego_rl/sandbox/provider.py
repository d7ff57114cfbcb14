"""What every environment provides: images of tasks, and the sandboxes that start from them.

Invariant: isolation that cannot be established is an error, never a weaker sandbox, so callers never ask which
environment they are in.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lego_rl.errors import SandboxError
from lego_rl.sandbox.limits import DEFAULT_LIMITS, LimitReport, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.sandbox import Phase, Sandbox, Tree
from lego_rl.tasks.history import DEFAULT_HISTORY, History
from lego_rl.tasks.network import NO_NETWORK, Network, NoNetwork


class TaskImage(Tree, Protocol):
    """A task's image, ready to start sandboxes from: agent phase and grading start from the same one."""

    async def start(
        self,
        phase: Phase,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        network: Network = NO_NETWORK,
    ) -> Sandbox:
        """Start a sandbox.

        Args:
            phase: What it is for.
            mounts: Read-only mounts; later ones cover earlier ones.
            limits: Its limits.
            network: What the task declares for its tests.

        Raises:
            SandboxError: Some part of the isolation could not be established, an agent phase is to have a network, or
                the network cannot be had.
        """
        ...


def check_phase(phase: Phase, network: Network) -> None:
    """Refuse an agent phase with a network.

    Raises:
        SandboxError: It is one.
    """
    if phase is Phase.AGENT and not isinstance(network, NoNetwork):
        raise SandboxError("an agent phase has no network", "ask for one in the grading phase only")


class Provider(Protocol):
    """One way to isolate: an environment of this machine or of a cluster."""

    def check(self) -> None:
        """See, as far as that is cheap, that sandboxes can be had here; `probe` starts one.

        Raises:
            SandboxError: They cannot; the message names the one command that mends it.
        """
        ...

    def check_network(self, network: Network) -> None:
        """See whether grading sandboxes can be given a network here. A run asks for every task before it begins.

        Raises:
            SandboxError: They cannot; the message says what else to do.
        """
        ...

    def check_image(self, environment: Path, *, workdir: str, docker_image: str | None = None) -> None:
        """See, without copying or building anything, whether a task's image can be made here; as for `prepare`.

        A run asks for every task before it begins.

        Raises:
            TaskError: There is nothing to make a work tree of.
            UnservedTaskError: The task asks for what this environment does not do.
            SandboxError: An image is not here.
        """
        ...

    def prepare(
        self, environment: Path, *, workdir: str, docker_image: str | None = None, history: History = DEFAULT_HISTORY
    ) -> TaskImage:
        """Make a task's image, once for each state of its files; it may take a while.

        Args:
            environment: The task's ``environment/`` folder.
            workdir: The work directory where no Dockerfile names one.
            docker_image: The image that the task names instead of a recipe.
            history: How much of its git history the task shows, and when.

        Raises:
            TaskError: There is nothing to make a work tree of.
            SandboxError: The image cannot be made here.
        """
        ...

    async def probe(self) -> LimitReport:
        """Start a sandbox, use and remove it, as every trial does; what holds its limits.

        Raises:
            SandboxError: Agents cannot be isolated here; the message names the one command that mends it.
        """
        ...

    def reap(self) -> list[str]:
        """Remove what killed owners left behind, and nothing else; what was removed, by name."""
        ...
