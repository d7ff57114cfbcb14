"""What network a task declares for its tests: ``[verifier]`` in its ``task.toml``. An agent phase never has one."""

import re
from dataclasses import dataclass

PORTS = (80, 443)
"""Of a named host, where the task names none (``[metadata] verifier_ports``)."""
MAX_LISTENERS = 64
"""Most pairs of a host and a port."""

_HOST_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_NUMBERS = re.compile(r"[0-9.]+")


@dataclass(frozen=True)
class NoNetwork:
    """Nothing but a loopback."""


@dataclass(frozen=True)
class NamedHosts:
    """These hosts and no other.

    Attributes:
        hosts: Host names, in lower case.
        ports: TCP ports of each of them.
    """

    hosts: tuple[str, ...]
    ports: tuple[int, ...] = PORTS


@dataclass(frozen=True)
class PublicNetwork:
    """Whatever the machine reaches of the Internet."""


type Network = NoNetwork | NamedHosts | PublicNetwork

NO_NETWORK = NoNetwork()


def declared_network(mode: str | None, hosts: tuple[str, ...], ports: tuple[int, ...]) -> Network:
    """The network that a ``task.toml`` asks for; none where it says nothing.

    Args:
        mode: Harbor's ``network_mode``.
        hosts: Harbor's ``allowed_hosts``.
        ports: Of the hosts.

    Raises:
        ValueError: It is none of Harbor's, or names what is no host name.
    """
    match mode:
        case None | "no-network":
            return NO_NETWORK
        case "public":
            return PublicNetwork()
        case "allowlist":
            names = tuple(dict.fromkeys(host.strip().lower().rstrip(".") for host in hosts))
            for name in names:
                if not _HOST_NAME.fullmatch(name) or _NUMBERS.fullmatch(name):
                    raise ValueError(f"{name!r} is no host name; patterns, addresses and ranges cannot be relayed")
            if not names or not ports or len(names) * len(ports) > MAX_LISTENERS:
                raise ValueError(f"allowed_hosts times verifier_ports has to be 1 to {MAX_LISTENERS} pairs")
            return NamedHosts(names, ports)
        case _:
            raise ValueError(f"there is no network mode {mode!r}")
