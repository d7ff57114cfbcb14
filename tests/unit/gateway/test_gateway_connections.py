"""A sandbox may open as many connections as it likes: the host holds a few of them, and every other trial goes on."""

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import START, tape, user
from served import Served, served

from lego_rl.gateway import connections
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.connections import CONNECTIONS, BoundedListener, connections_each

WIRE = AnthropicWire()


def handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextlib.contextmanager
def idle(at: Served, count: int) -> Iterator[None]:
    """Connections on which nothing is ever said."""
    port = int(at.url.split(":")[2].split("/")[0])
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        yield


async def test_idle_connections_take_a_few_handles_and_nothing_of_the_other_trials() -> None:
    async with served(tape(["Done."] * 2)) as hostile, served(tape(["Done."])) as other:
        before = handles()
        with idle(hostile, 10 * CONNECTIONS):
            assert (await asyncio.wait_for(other.ask(WIRE, START), 10)).content == "Done."
            await asyncio.sleep(0.1)
            others = 4  # both ends of the other trial's connection, and the file of its routes, open and mapped
            assert handles() - before <= 10 * CONNECTIONS + CONNECTIONS + others
        assert (await asyncio.wait_for(hostile.ask(WIRE, START), 10)).content == "Done."


async def test_idle_clients_of_a_harness_do_not_keep_its_other_clients_out() -> None:
    clients = 2 * CONNECTIONS
    async with served(tape(["Done."] * clients), Budget(turns=clients)) as at, contextlib.AsyncExitStack() as stack:
        for number in range(clients):
            client = await stack.enter_async_context(aiohttp.ClientSession())
            body = WIRE.body([*START, user(f"Part {number}.")], ())
            response = await asyncio.wait_for(client.post(at.url + WIRE.path, json=body), 10)
            assert response.status == 200
            crowded = number >= CONNECTIONS // 2
            assert (response.headers.get("Connection") == "close") == crowded
            await response.read()


async def test_a_host_without_handles_accepts_again_when_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_PAUSE_SECONDS", 0.01)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(tape(["Done."])) as at:
        with socket.socket() as sock:
            sock.setblocking(False)
            highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
            with contextlib.ExitStack() as taken:
                while (probe := taken.enter_context(socket.socket())).fileno() < highest:
                    pass
                resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno() + 1, hard))
                try:
                    sock.connect_ex(("127.0.0.1", int(at.url.split(":")[2].split("/")[0])))
                    await asyncio.sleep(0.05)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (await asyncio.wait_for(at.ask(WIRE, START), 10)).content == "Done."


async def test_closing_a_listener_does_not_lose_its_closers_own_cancellation() -> None:
    async def closing(listener: BoundedListener) -> None:
        await listener.close()
        await asyncio.sleep(60)

    for turns in range(1, 4):
        listener = BoundedListener(socket.create_server(("127.0.0.1", 0)), asyncio.Protocol, 4)
        task = asyncio.create_task(closing(listener))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()


def test_all_listeners_together_leave_the_host_half_of_its_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert [connections_each(count) for count in (1, 8, 16, 64)] == [64, 64, 32, 8]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert connections_each(1000) == CONNECTIONS


async def lost(listener: BoundedListener) -> OSError | None:
    """What a listener says of its socket, given a moment."""
    for _ in range(100):
        if listener.lost is not None:
            break
        await asyncio.sleep(0.01)
    return listener.lost


async def test_a_listener_whose_socket_is_shut_down_on_the_host_says_so() -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    listener = BoundedListener(sock, asyncio.Protocol, 4)
    await asyncio.sleep(0.01)
    assert listener.lost is None
    sock.shutdown(socket.SHUT_RDWR)
    error = await lost(listener)
    assert error is not None and error.errno == errno.EINVAL
    await listener.close()


async def test_nothing_that_clients_do_with_their_connections_loses_the_listener() -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    listener = BoundedListener(sock, asyncio.Protocol, 4)

    def rush() -> None:
        at_once = struct.pack("ii", 1, 0)
        for _ in range(50):
            with socket.create_connection(sock.getsockname(), 10) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)  # a reset, for some before accept(2)
                client.sendall(b"?")

    await asyncio.gather(*(asyncio.to_thread(rush) for _ in range(4)))
    assert listener.lost is None
    await listener.close()


async def test_a_connection_that_cannot_be_served_is_dropped_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    serve, failures = loop.connect_accepted_socket, iter([True])

    async def fails_once(*arguments: Any) -> Any:
        if next(failures, False):
            raise OSError(errno.EINVAL, "gone already")
        return await serve(*arguments)

    monkeypatch.setattr(loop, "connect_accepted_socket", fails_once)
    async with served(tape(["Done."])) as at:
        with socket.create_connection(("127.0.0.1", int(at.url.split(":")[2].split("/")[0]))) as first:
            await asyncio.sleep(0.05)
            assert first.recv(1) == b""
        assert (await asyncio.wait_for(at.ask(WIRE, START), 10)).content == "Done."
