"""Whether a harness tried the network, by the counters of the sandbox's own network namespace.

Invariant: what is counted cannot be hidden by a program inside. A name lookup is a datagram, whoever sends it; a
connection to anywhere but the namespace itself is a packet without a route.
"""

from collections.abc import Mapping

from lego_rl.sandbox.sandbox import Sandbox

_FILES = ("/proc/net/snmp", "/proc/net/snmp6")
_COUNTERS = {
    "UdpOutDatagrams": "datagrams (name lookups)",
    "Udp6OutDatagrams": "datagrams (name lookups)",
    "IpOutNoRoutes": "connections to the outside",
    "Ip6OutNoRoutes": "connections to the outside",
}


async def sent_by_now(box: Sandbox) -> dict[str, int]:
    """The counters as they are now; what the check of the seal tried, for example, is no harness's."""
    texts = [(await box.exec(["cat", path])).stdout for path in _FILES]
    return _pairs(texts[0]) | _columns(texts[1])


async def tried(box: Sandbox, before: Mapping[str, int]) -> str:
    """What was sent to anybody but the gateway since the counters were `before`; empty if nothing was."""
    counters = await sent_by_now(box)
    sent: dict[str, int] = {}
    for name, meaning in _COUNTERS.items():
        sent[meaning] = sent.get(meaning, 0) + counters.get(name, 0) - before.get(name, 0)
    if not counters:
        return "the kernel's counters cannot be read"
    return ", ".join(f"{count} {meaning}" for meaning, count in sent.items() if count)


def _pairs(text: str) -> dict[str, int]:
    """A line of names and a line of numbers for each protocol, as ``/proc/net/snmp`` has them."""
    lines = text.splitlines()
    counters = {}
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        protocol = names.partition(":")[0]
        for name, number in zip(names.split()[1:], numbers.split()[1:], strict=False):
            counters[protocol + name] = int(number)
    return counters


def _columns(text: str) -> dict[str, int]:
    """A name and a number in each line, as ``/proc/net/snmp6`` has them."""
    fields = [line.split() for line in text.splitlines()]
    return {each[0]: int(each[1]) for each in fields if len(each) == 2}
