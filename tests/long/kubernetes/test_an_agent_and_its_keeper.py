"""What an agent does to the keeper beside it: the stream holds, or its end masks nothing."""

from dataclasses import replace

import pytest
from kube_tools import LIMITS

from lego_rl.sandbox.kubernetes.image import KubernetesImage
from lego_rl.sandbox.kubernetes.pod import PodSandbox
from lego_rl.sandbox.sandbox import Phase

FORKS = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        time.sleep(0.01)
"""
CONNECTIONS = """
import socket, time
clients = []
until = time.monotonic() + 5
while time.monotonic() < until:
    try:
        client = socket.create_connection(("127.0.0.1", 8100), 1)
        client.setblocking(False)
        clients.append(client)
    except OSError:
        time.sleep(0.01)
    for client in clients:
        try:
            client.send(bytes(1 << 20))
        except OSError:
            pass
print(len(clients))
"""
PACKETS = """
import socket, time
until = time.monotonic() + 5
streams = []
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.setblocking(False)
while time.monotonic() < until:
    for address in (("127.0.0.1", 9), ("10.88.0.1", 9), ("10.96.0.1", 443), ("192.0.2.1", 9)):
        try:
            flood.sendto(bytes(1400), address)
        except OSError:
            pass
    if len(streams) < 200:
        streams.append(socket.socket())
        streams[-1].setblocking(False)
        streams[-1].connect_ex(("10.96.0.1", 443))
"""
SIGNALS = """
import os, signal
for number in range(1, 65):
    for pid in (1, -1):
        if (number, pid) != (9, -1):
            try:
                os.kill(pid, number) if number not in (signal.SIGSTOP, signal.SIGTSTP) or pid == 1 else None
            except OSError:
                pass
os.kill(-1, 9)
"""
LONG_PATHS = """
import os, time
for _ in range(15):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
for number in range(80_000):
    os.mkdir(str(number))
time.sleep(600)
"""
# Folders whose names together are longer than a keeper's memory, and no file.


@pytest.mark.parametrize(
    "script", [FORKS, CONNECTIONS, PACKETS, SIGNALS], ids=["forks", "connections", "packets", "signals"]
)
async def test_the_stream_holds(box: PodSandbox, script: str) -> None:
    listener = await box.listen(8100)
    with listener:  # nobody serves it: what comes fills the buffers on the way
        done = await box.exec(["python3", "-c", script], timeout_sec=10)
    assert not done.died, done
    assert (await box.exec(["true"])).returncode == 0
    await box.kill()
    assert (await box.snapshot()).diff(box.image.pristine).changes == ()


async def test_names_that_fill_a_keepers_memory_are_too_much_disk(image: KubernetesImage) -> None:
    box = await image.start(Phase.AGENT, limits=replace(LIMITS, disk_mb=400))
    try:
        done = await box.exec(["python3", "-c", LONG_PATHS], timeout_sec=60)
        assert done.died and done.loss is None, done
        await box.kill()
        assert box.limit_hits().disk
    finally:
        await box.close()
