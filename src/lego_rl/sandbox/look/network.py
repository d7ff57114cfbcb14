"""What the sandbox can reach, tried from inside.

Without routes every attempt fails at once. With an interface that only a policy keeps from reaching anything, as in a
pod, the attempts wait for one deadline together; whatever answers by then, a refusal among it, is a hole.

Fields: ``interface:NAME`` that may exist, ``address:HOST PORT`` that must not answer, ``name:NAME`` that must not
resolve.
"""

# pathlib would be most of the run time.
# ruff: noqa: PTH123

import _socket as socket
import _thread
import errno
import os
import select
import time

REACHED, NAME, INTERFACE, SOCKET, KEY = "reached", "name", "interface", "socket", "key"
SECONDS = 1.0
"""How long an answer is waited for. A cluster's own services answer within milliseconds."""
REFUSALS = (errno.ECONNREFUSED, errno.ECONNRESET)
"""Errors that somebody sent. All others come from this machine's own kernel, or mean that nobody sent anything."""
FORBIDDEN_FAMILIES = {"vsock": 40, "packet": 17}
"""They reach past a network namespace: vsock the host of a virtual machine, packet what is on the wire."""
CLUSTER_VARIABLE = "KUBERNETES_"
KEYS = (
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/run/secrets/kubernetes.io/serviceaccount/token",
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
)
"""Files that open an API to whoever can reach it."""
NAME_PORT = 53
QUERY = b"\x1e\x90\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"
"""A question for the address of example.com (RFC 1035, 4.1)."""


def holes(fields: "list[str]") -> "list[tuple[str, str]]":
    """Kinds and sentences: interfaces, routes, services that answer, and keys to services."""
    allowed = {"lo", *values(fields, "interface")}
    deadline = time.monotonic() + SECONDS
    resolved: list[str] = []
    waiting = [lookup(name, resolved) for name in values(fields, "name")]
    found = [(INTERFACE, f"interface {name} exists") for _, name in socket.if_nameindex() if name not in allowed]
    found += [(INTERFACE, f"a route by {name} exists") for name in sorted(route_interfaces() - allowed)]
    found += [(REACHED, said) for said in answers(attempts(fields), deadline)]
    found += [(SOCKET, f"the socket {name} of another namespace can be seen") for name in abstract_sockets()]
    found += [
        (SOCKET, f"{name} sockets can be made") for name, number in FORBIDDEN_FAMILIES.items() if can_make(number)
    ]
    found += [(KEY, f"the variable {name} is set") for name in os.environ if name.startswith(CLUSTER_VARIABLE)]
    found += [(KEY, f"{path} is visible") for path in KEYS if os.path.lexists(path)]
    for lock in waiting:
        lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
    return found + [(NAME, said) for said in resolved]


def values(fields: "list[str]", kind: str) -> "list[str]":
    """The values of the fields of a kind."""
    return [field[len(kind) + 1 :] for field in fields if field.startswith(f"{kind}:")]


def lookup(name: str, resolved: "list[str]") -> "_thread.LockType":
    """Look a name up in a thread of its own, which may hang for longer than anyone waits; its lock opens at the end."""
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            address = socket.getaddrinfo(name.encode(), 80, type=socket.SOCK_STREAM)[0][4][0]
            resolved.append(f"the name {name} resolves to {address}")
        except OSError:
            pass
        finally:
            done.release()

    _thread.start_new_thread(work, ())
    return done


def route_interfaces() -> "set[str]":
    """Interfaces that have a route; routes of IPv6 that only refuse are on ``lo``."""
    found = set()
    with open("/proc/net/route") as stream:
        found |= {line.split()[0] for line in stream.read().splitlines()[1:]}
    if os.path.exists("/proc/net/ipv6_route"):  # noqa: PTH110
        with open("/proc/net/ipv6_route") as stream:
            found |= {line.split()[-1] for line in stream.read().splitlines()}
    return found


class Attempt:
    """One attempt to be answered, a connection or a question to a name server; an `OSError` if none can be made.

    ``verdict`` is an error number, 0 for an answer, or ``None`` as long as nothing has come back.
    """

    def __init__(self, host: str, port: int, kind: int) -> None:
        self.target = f"{host} port {port}"
        self.own = host.startswith("127.") or host == "::1"
        self.wanted = select.POLLIN if kind == socket.SOCK_DGRAM else select.POLLOUT
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.inet_pton(family, host)  # A name would be looked up, for as long as that takes.
        self.client = socket.socket(family, kind)
        self.client.setblocking(False)
        result = self.client.connect_ex((host, port))
        if result == 0 and kind == socket.SOCK_DGRAM:
            try:
                self.client.send(QUERY)
            except OSError as error:
                result = error.errno or errno.EIO
        waits = result == errno.EINPROGRESS or (result == 0 and kind == socket.SOCK_DGRAM)
        self.verdict = None if waits else result

    def hole(self) -> "str | None":
        """What it shows; a port of the sandbox's own loopback that is closed shows nothing."""
        if self.verdict == 0:
            return f"{self.target} answers"
        if self.verdict in REFUSALS and not self.own:
            return f"{self.target} answers ({os.strerror(self.verdict)})"
        return None


def attempts(fields: "list[str]") -> "list[Attempt]":
    """Everything that is tried, under way."""
    addresses = [text.split(" ") for text in values(fields, "address")]
    targets = [(host, int(port), socket.SOCK_STREAM) for host, port in addresses]
    found = []
    for host, port, kind in targets + [(server, NAME_PORT, socket.SOCK_DGRAM) for server in name_servers()]:
        try:
            found.append(Attempt(host, port, kind))
        except OSError:  # The kernel has no such protocol, or nothing that could be connected to stands there.
            continue
    return found


def name_servers() -> "list[str]":
    """The servers that names are asked of."""
    try:
        with open("/etc/resolv.conf") as stream:
            words = [line.split() for line in stream.read().splitlines()]
    except OSError:
        return []
    return [line[1].partition("%")[0] for line in words if len(line) > 1 and line[0] == "nameserver"]


def answers(tried: "list[Attempt]", deadline: float) -> "list[str]":
    """What the attempts show by the deadline; they are over then."""
    poll = select.poll()
    pending = {attempt.client.fileno(): attempt for attempt in tried if attempt.verdict is None}
    for descriptor, attempt in pending.items():
        poll.register(descriptor, attempt.wanted)
    while pending and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            attempt = pending.pop(descriptor)
            attempt.verdict = attempt.client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    for attempt in tried:
        attempt.client.close()
    return [hole for attempt in tried if (hole := attempt.hole()) is not None]


def abstract_sockets() -> "list[str]":
    """Sockets with an abstract name: nothing ran here yet that could have made one."""
    with open("/proc/net/unix") as stream:
        lines = [line.split(None, 7) for line in stream.read().splitlines()[1:]]
    return [line[7] for line in lines if len(line) > 7 and line[7].startswith("@")]


def can_make(family: int) -> bool:
    """Whether a socket of an address family can be made."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        return True
    return False
