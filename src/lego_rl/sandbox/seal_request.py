"""What the check of the seal is asked: what the sandbox may have, and what it must not reach."""

from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.reachable import METADATA_ADDRESSES, own_addresses
from lego_rl.tasks.hidden_content import HiddenFile

LOOK = Path(__file__).with_name("look")
PROGRAMS = ("kernel.py", "network.py", "files.py")
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
NAMES = ("kubernetes.default.svc", "host.docker.internal", "example.com")
"""Of a cluster, of a container engine's host, of the world."""


GATEWAY_PORT = 8100
"""Port on a sandbox's own loopback where its gateway is heard, once its agent phase is known to be sealed."""
MAX_OWN_ADDRESSES = 32


def local_neighbours() -> tuple[tuple[str, int], ...]:
    """What a sandbox of this machine reaches if its network is not its own alone: the machine, and another's gateway.

    Any port of the machine will do, for a refusal is an answer as well. On the sandbox's own loopback nobody listens
    yet when the seal is looked at.
    """
    machine = [(address, 1) for address in own_addresses()[:MAX_OWN_ADDRESSES]]
    return (("127.0.0.1", GATEWAY_PORT), *machine)


@dataclass(frozen=True)
class SealRequest:
    """What a task's agent phase must look like.

    Attributes:
        hidden: Absolute paths that must not exist.
        history: What of git there is.
        content: Files that must be nowhere, by what is in them.
    """

    hidden: tuple[str, ...] = ()
    history: HistorySeal = field(default_factory=HistorySeal)
    content: tuple[HiddenFile, ...] = ()

    def fields(self) -> list[str]:
        """For the programs that look."""
        found = [f"hidden:{path}" for path in self.hidden] + [f"fixture:{path}" for path in self.history.fixtures]
        found += [f"content:{file.size} {file.sha256} {file.name}" for file in self.content]
        for one in self.history.repositories:
            found += [f"repository:{one.git_dir}", f"objects:{one.objects} {one.digest}"]
            found += [f"file:{file.size} {file.sha256} {file.name}" for file in one.files]
        return found


@dataclass(frozen=True)
class Surroundings:
    """What an environment is like, whatever the task.

    Attributes:
        host_folders: Absolute paths inside of what the host puts there, read-only: none of the task's.
        interfaces: Network interfaces that may exist besides the loopback's.
        network_advice: What to do about a network that reaches more than it must.
        addresses: Hosts, as numeric addresses, and ports that must not answer, besides those where clouds keep their
            secrets.
    """

    host_folders: tuple[str, ...] = KERNEL_FOLDERS
    interfaces: tuple[str, ...] = ()
    network_advice: str = "report this as a bug"
    addresses: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for host, _ in self.addresses:
            ip_address(host)  # What looks from inside would take a name for an address that cannot be tried.

    def fields(self) -> list[str]:
        """For the programs that look."""
        return [
            *(f"skip:{path}" for path in self.host_folders),
            *(f"interface:{name}" for name in self.interfaces),
            *(f"address:{host} {port}" for host, port in (*METADATA_ADDRESSES, *self.addresses)),
            *(f"name:{name}" for name in NAMES),
        ]


@cache
def look_programs() -> bytes:
    """The text of the programs that look, as the first process wants it."""
    return "\0".join((LOOK / name).read_text(encoding="utf-8") for name in PROGRAMS).encode()
