"""What the check of the seal is asked: what the sandbox may have, and what it must not reach."""

from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.reachable import METADATA_ADDRESSES

LOOK = Path(__file__).with_name("look")
PROGRAMS = ("kernel.py", "network.py", "files.py")
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
NAMES = ("kubernetes.default.svc", "host.docker.internal", "example.com")
"""Of a cluster, of a container engine's host, of the world."""


@dataclass(frozen=True)
class SealRequest:
    """What a task's agent phase must look like.

    Attributes:
        hidden: Absolute paths that must not exist.
        history: What of git there is.
    """

    hidden: tuple[str, ...] = ()
    history: HistorySeal = field(default_factory=HistorySeal)

    def fields(self) -> list[str]:
        """For the programs that look."""
        found = [f"hidden:{path}" for path in self.hidden] + [f"fixture:{path}" for path in self.history.fixtures]
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
        addresses: Hosts, as numeric addresses, and ports that must not answer, besides those where clouds keep their
            secrets.
    """

    host_folders: tuple[str, ...] = KERNEL_FOLDERS
    interfaces: tuple[str, ...] = ()
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
