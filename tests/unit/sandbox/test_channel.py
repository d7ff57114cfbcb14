"""Replies come from inside a sandbox: whatever they hold, the host has an answer or a dead sandbox."""

import os
import socket
import struct
from collections.abc import Callable

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.channel import Channel, SandboxDied

PORT = 8100


async def ask(channel: Channel, theirs: socket.socket, reply: Callable[[socket.socket], object]) -> socket.socket:
    """Send a request whose other end is answered by `reply`; the socket of the answer."""
    answer = await channel.send(["anything"], [])
    _, descriptors, _, _ = socket.recv_fds(theirs, 4, 1)
    with socket.socket(fileno=descriptors[0]) as end:
        reply(end)
    return answer


@pytest.mark.parametrize(
    ("message", "status"), [(struct.pack("!i", 3 << 8), 3), (struct.pack("!i", 9), 137), (struct.pack("!i", 0), 0)]
)
async def test_exit_statuses(message: bytes, status: int) -> None:
    mine, theirs = socket.socketpair()
    channel = Channel(mine)
    with theirs:
        assert await channel.status(await ask(channel, theirs, lambda end: end.send(message))) == status
        channel.close()


@pytest.mark.parametrize("message", [b"", b"\0", b"\0" * 5, b"\0\0\0\x7f", b"\0\0\xff\xff", b"\xff" * 4, b"x" * 4000])
async def test_what_is_no_exit_status_is_a_dead_sandbox(message: bytes) -> None:
    mine, theirs = socket.socketpair()
    channel = Channel(mine)
    with theirs:
        answer = await ask(channel, theirs, lambda end: end.send(message) if message else None)
        with pytest.raises(SandboxDied):
            await channel.status(answer)
        channel.close()


def no_socket() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def no_listener() -> int:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    return server.detach()


def another_family() -> int:
    return socket.socket(socket.AF_UNIX).detach()


def another_port() -> int:
    return socket.create_server(("127.0.0.1", 0)).detach()


@pytest.mark.parametrize("make", [no_socket, no_listener, another_family, another_port, None])
async def test_what_is_no_listener_is_a_dead_sandbox(
    make: Callable[[], int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = socket.socketpair()
    channel = Channel(mine)
    given = None if make is None else make()
    open_before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208

    def reply(end: socket.socket) -> None:
        if given is not None:
            socket.send_fds(end, [b"\0"], [given])

    answer = await ask(channel, theirs, reply)

    async def send(_fields: list[str], _descriptors: list[int]) -> socket.socket:
        return answer

    monkeypatch.setattr(channel, "send", send)
    with theirs, pytest.raises(SandboxDied):
        await channel.listener(PORT, "127.0.0.1")
    channel.close()
    left = set(os.listdir("/proc/self/fd")) - open_before  # noqa: PTH208
    assert not left
    if given is not None:
        os.close(given)


async def test_a_port_that_is_taken_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = socket.socketpair()
    channel = Channel(mine)
    answer = await ask(channel, theirs, lambda end: end.send(b"Address already in use"))

    async def send(_fields: list[str], _descriptors: list[int]) -> socket.socket:
        return answer

    monkeypatch.setattr(channel, "send", send)
    with theirs, pytest.raises(SandboxError, match="Address already in use"):
        await channel.listener(PORT, "127.0.0.1")
    channel.close()
