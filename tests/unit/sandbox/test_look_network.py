"""What counts as an answer when the seal looks at a network: tried on this machine's own addresses."""

import socket
import threading
import time

import pytest

from lego_rl.sandbox.look import network
from lego_rl.sandbox.seal_request import Surroundings


def reached(fields: list[str], seconds: float = 0.5) -> list[str]:
    return network.answers(network.attempts(fields), time.monotonic() + seconds)


@pytest.fixture(autouse=True)
def no_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "name_servers", list)


def free_port(host: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def own_address() -> str:
    """An address of this machine beside its loopback's, or else the loopback's second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def test_a_listener_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reached([f"address:127.0.0.1 {port}"]) == [f"127.0.0.1 port {port} answers"]


def test_a_refusal_is_an_answer_but_from_the_own_loopback() -> None:
    assert reached([f"address:127.0.0.1 {free_port('127.0.0.1')}"]) == []
    if address := own_address():
        port = free_port(address)
        assert reached([f"address:{address} {port}"]) == [f"{address} port {port} answers (Connection refused)"]


def test_what_cannot_be_tried_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "name_servers", lambda: ["a.name", "fe80::1"])
    assert reached(["address:fe80::2 80", "address:example.com 80"], 0.2) == []


def test_an_address_that_cannot_be_tried_is_no_part_of_a_request() -> None:
    with pytest.raises(ValueError, match=r"host\.name"):
        Surroundings(addresses=(("host.name", 80),))


def test_all_attempts_share_one_deadline() -> None:
    full = [socket.create_server(("127.0.0.1", 0), backlog=0) for _ in range(20)]
    clients = []
    for server in full:  # a listener whose queue is full answers nobody any more
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            clients.append(client)
    started = time.monotonic()
    assert reached([f"address:127.0.0.1 {server.getsockname()[1]}" for server in full], 0.3) == []
    assert 0.25 < time.monotonic() - started < 3.0  # one after the other: 6
    for each in (*full, *clients):
        each.close()


def test_a_name_server_that_says_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        asked: list[bytes] = []

        def serve() -> None:
            question, client = server.recvfrom(512)
            asked.append(question)
            server.sendto(question[:2] + b"\x81\x83" + question[4:], client)  # there is no such name

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setattr(network, "NAME_PORT", server.getsockname()[1])
        monkeypatch.setattr(network, "name_servers", lambda: ["127.0.0.1"])
        assert reached([]) == [f"127.0.0.1 port {network.NAME_PORT} answers"]
        thread.join()
    assert asked == [network.QUERY]
    monkeypatch.setattr(network, "NAME_PORT", free_port("127.0.0.1", socket.SOCK_DGRAM))
    assert reached([]) == []


def test_a_name_that_resolves() -> None:
    resolved: list[str] = []
    network.lookup("localhost", resolved).acquire(timeout=5)
    network.lookup("does-not-exist.invalid", resolved).acquire(timeout=5)
    assert len(resolved) == 1
    assert resolved[0].startswith("the name localhost resolves to ")


def test_what_a_cluster_puts_into_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SECONDS", 0.2)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert (network.KEY, "the variable KUBERNETES_SERVICE_HOST is set") in network.holes([])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert not [said for _, said in network.holes([]) if "KUBERNETES" in said]


def test_an_interface_that_may_exist() -> None:
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    told = network.holes([])
    assert all((network.INTERFACE, f"interface {name} exists") in told for name in others)
    told = network.holes([f"interface:{name}" for name in others])
    assert not [said for kind, said in told if kind == network.INTERFACE]
