"""A task's image in bubblewrap: its prepared files, below the host's own programs or an unpacked image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lego_rl.errors import UnservedTaskError
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.image import PreparedTree
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.provider import check_phase
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain
from lego_rl.tasks.network import NO_NETWORK, Network, PublicNetwork


@dataclass(frozen=True)
class BubblewrapImage(PreparedTree):
    """See `TaskImage`.

    Attributes:
        toolchain: The Python that they have.
        state: Where they keep their files.
        services: Where hosts are that tasks name, if not where their names lead (`SandboxSettings.services`).
    """

    toolchain: Toolchain
    state: State
    services: Mapping[str, str] = field(default_factory=dict)

    async def start(
        self,
        phase: Phase,
        *,
        mounts: Sequence[Mount] = (),
        limits: Limits = DEFAULT_LIMITS,
        network: Network = NO_NETWORK,
    ) -> BubblewrapSandbox:
        """See `TaskImage.start`. The calling thread must outlive the sandbox."""
        check_phase(phase, network)
        check_network(network)
        return await BubblewrapSandbox.start(
            self.prepared,
            self.toolchain,
            phase,
            mounts=mounts,
            limits=limits,
            state=self.state,
            network=network,
            services=self.services,
        )


def check_network(network: Network) -> None:
    """Refuse what cannot be relayed: anything but named hosts.

    Raises:
        UnservedTaskError: It is a public network.
    """
    if isinstance(network, PublicNetwork):
        raise UnservedTaskError(
            "bubblewrap gives tests no public network",
            'name what they need: network_mode = "allowlist" and allowed_hosts in [verifier] of the task.toml',
        )
