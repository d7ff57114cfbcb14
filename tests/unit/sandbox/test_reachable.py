"""What a relay may reach, whatever a name is said to stand for."""

import socket
from itertools import pairwise
from pathlib import Path

import pytest

from lego_rl.sandbox.reachable import METADATA_ADDRESSES, may_be_reached

OUTSIDE = ["192.0.2.7", "10.250.250.250", "2001:db8::7", "::ffff:192.0.2.7", "2002:c000:207::1"]
INSIDE = [
    "127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "2002:7f00:1::", "0.0.0.0", "::", "169.254.0.23",
    "::ffff:169.254.169.254", "2002:a9fe:a9fe::1", "fe80::1%lo", "224.0.0.1", "255.255.255.255",
    "::ffff:100.100.100.200", "2002:6464:64c8::",
]  # fmt: skip


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_host_of_the_world_may_be_reached(address: str) -> None:
    assert may_be_reached(address)


@pytest.mark.parametrize("address", [*INSIDE, *(host for host, _ in METADATA_ADDRESSES)])
def test_what_is_near_may_not(address: str) -> None:
    assert not may_be_reached(address)


def test_no_address_of_this_machine_may_be_reached() -> None:
    own = [line.split()[0] for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    addresses = [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(text)) for text in own]
    words = Path("/proc/net/fib_trie").read_text().replace("+--", "|--").splitlines()
    addresses += [before.split()[1] for before, line in pairwise(words) if line.endswith("/32 host LOCAL")]
    assert "127.0.0.1" in addresses
    assert [address for address in addresses if may_be_reached(address)] == []
