"""Which addresses nothing that is done for a sandbox may reach: this machine's own, its link's, and a cloud's secrets.

Invariant: it is an address that is looked at, never a name, and every address that another one stands for with it.
"""

import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path

METADATA_ADDRESSES = (
    ("169.254.169.254", 80),
    ("169.254.170.2", 80),
    ("fd00:ec2::254", 80),
    ("fd00:ec2::23", 80),
    ("fd20:ce::254", 80),
    ("fd00:42::42", 80),
    ("100.100.100.200", 80),
    ("168.63.129.16", 80),
    ("192.0.0.192", 80),
)
"""Where clouds hand out a machine's identity: most of them; containers of AWS; AWS, its containers, Google and
Scaleway on IPv6; Alibaba, Azure, Oracle."""

_METADATA = frozenset(ipaddress.ip_address(host) for host, _ in METADATA_ADDRESSES)

type _Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def own_addresses() -> tuple[str, ...]:
    """Addresses of this machine's interfaces, those of its loopback and of a single link left out; sorted.

    They are those of ``/proc/net/fib_trie`` and ``/proc/net/if_inet6`` (proc(5)); what the kernel does not list, as
    without a protocol, is not there.
    """
    found = {*re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", _read("/proc/net/fib_trie"))}
    found |= {str(ipaddress.IPv6Address(int(line.split()[0], 16))) for line in _read("/proc/net/if_inet6").splitlines()}
    addresses = map(ipaddress.ip_address, sorted(found))
    return tuple(str(ip) for ip in addresses if not (ip.is_loopback or ip.is_link_local))


def _read(path: str) -> str:
    return Path(path).read_text(encoding="ascii") if Path(path).exists() else ""


def may_be_reached(address: str) -> bool:
    """Whether a relay connects to an IP address that a name stands for."""
    return not any(map(_is_refused, _meant(ipaddress.ip_address(address.partition("%")[0]))))


def _meant(ip: _Address) -> Iterator[_Address]:
    """The address as the kernel takes it, and the one of version 4 that a gateway would."""
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.sixtofour is not None:
            yield ip.sixtofour
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
    yield ip


def _is_refused(ip: _Address) -> bool:
    special = ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved
    return special or ip in _METADATA or _is_own(ip)


def _is_own(ip: _Address) -> bool:
    """Whether an address is one of this machine's: only those can be bound.

    Where the kernel was told to let any address be bound (``ip_nonlocal_bind``), all are taken for its own.
    """
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6  # versions of IP
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(ip), 0))
    except OSError:
        return False
    return True
