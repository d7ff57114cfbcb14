"""The seal's look at the network: what it finds where one defence is missing, and that it finds nothing otherwise."""

import asyncio
import os
import socket

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox import seccomp
from lego_rl.sandbox.bubblewrap import launch, layout
from lego_rl.sandbox.bubblewrap.image import BubblewrapImage
from lego_rl.sandbox.docker.box import DockerSandbox
from lego_rl.sandbox.docker.image import DockerImage
from lego_rl.sandbox.hole import Hole, HoleKind
from lego_rl.sandbox.look import network
from lego_rl.sandbox.reachable import own_addresses
from lego_rl.sandbox.sandbox import Phase, Sandbox
from lego_rl.sandbox.seal import verify_seal
from lego_rl.sandbox.seal_request import GATEWAY_PORT, SealRequest
from lego_rl.tasks.network import PublicNetwork

ALLOW_EVERYTHING = b"\x06\x00\x00\x00\x00\x00\xff\x7f"
"""One instruction (linux/filter.h: BPF_RET with SECCOMP_RET_ALLOW)."""


async def test_a_sealed_sandbox_waits_for_nobody(box: Sandbox) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await box.holes(SealRequest()) == []
    assert loop.time() - started < network.SECONDS, "no attempt is left to wait for"


async def test_the_network_of_the_host_is_found(
    bubblewrapped: BubblewrapImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tuple(part for part in layout.NAMESPACES if part != "--unshare-net")
    monkeypatch.setattr(layout, "NAMESPACES", kept)
    abstract = f"lego-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as server:
        unix.bind(f"\0{abstract}")
        here = server.getsockname()
        monkeypatch.setattr("lego_rl.sandbox.seal_request.METADATA_ADDRESSES", (here,))
        box = await bubblewrapped.start(Phase.AGENT)
        try:
            with pytest.raises(SandboxError) as caught:
                await verify_seal(box, None)
        finally:
            await box.close()
    assert f"127.0.0.1 port {here[1]} answers" in caught.value.problem
    assert f"the socket @{abstract} of another namespace can be seen" in caught.value.problem
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    assert all(f"interface {name} exists" in caught.value.problem for name in names)


async def test_another_sandbox_and_its_session_are_found_in_a_shared_network(
    bubblewrapped: BubblewrapImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tuple(part for part in layout.NAMESPACES if part != "--unshare-net")
    monkeypatch.setattr(layout, "NAMESPACES", kept)
    other = await bubblewrapped.start(Phase.AGENT)
    try:
        with await other.listen(GATEWAY_PORT):
            box = await bubblewrapped.start(Phase.AGENT)
            try:
                reached = [hole.said for hole in await box.holes(SealRequest()) if hole.kind is HoleKind.REACHED]
            finally:
                await box.close()
    finally:
        await other.close()
    assert f"127.0.0.1 port {GATEWAY_PORT} answers" in reached
    for address in own_addresses():
        assert f"{address} port 1 answers (Connection refused)" in reached


async def test_sockets_that_pass_a_namespace_are_found(
    bubblewrapped: BubblewrapImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the filter; whether the kernel has vsock decides what there is to find."""
    empty = os.memfd_create("no filter")
    os.pwrite(empty, ALLOW_EVERYTHING, 0)
    monkeypatch.setattr(launch, "filter_descriptor", lambda: os.dup(empty))
    box = await bubblewrapped.start(Phase.AGENT)
    try:
        holes = await box.holes(SealRequest())
    finally:
        await box.close()
        os.close(empty)
    assert (Hole(HoleKind.SOCKET, "vsock sockets can be made") in holes) == network.can_make(40)


@pytest.mark.docker
async def test_the_network_of_a_daemon_is_found(contained: DockerImage) -> None:
    box = await DockerSandbox.start(contained, Phase.AGENT, PublicNetwork())
    try:
        with pytest.raises(SandboxError, match=r"not sealed: .*interface eth0 exists") as caught:
            await verify_seal(box, None)
    finally:
        await box.close()
    assert "route" in caught.value.problem
    answering = [address for address in own_addresses() if f"{address} port 1 answers" in caught.value.problem]
    assert answering, "the machine itself is behind the bridge"


@pytest.mark.docker
async def test_sockets_that_pass_a_container_are_found(contained: DockerImage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the daemon's own profile alone, which knows nothing of them."""
    monkeypatch.setattr(seccomp, "compiled", lambda: ALLOW_EVERYTHING)
    box = await contained.start(Phase.AGENT)
    try:
        holes = await box.holes(SealRequest())
    finally:
        await box.close()
    assert (Hole(HoleKind.SOCKET, "vsock sockets can be made") in holes) == network.can_make(40)
