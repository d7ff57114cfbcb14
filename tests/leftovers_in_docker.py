"""What a killed process can leave in a Docker daemon, and foreign things that look like it.

Source: the Engine API reference (docs.docker.com/reference/api/engine), version 1.41.
"""

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, override

from lego_rl.owner import own_stamp
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.labels import OWNER, SANDBOX, STATE
from lego_rl.sandbox.state import State
from tests.killed_runner import Elsewhere

IMAGE, LABELLED = "lego-rl/of-somebody:1", "somebody/labelled:1"
NETWORK = "lego-rl-network"


class InDocker(Elsewhere):
    """A daemon.

    Args:
        engine: The daemon.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    def everything(self) -> frozenset[str]:
        engine = self._engine
        containers = [f"container {name}" for found in engine.containers({}) for name in found.names or ()]
        volumes = [f"volume {found.name}" for found in engine.volumes({})]
        networks = [f"network {found['Name']}" for found in engine._asked(list[dict[str, Any]], "/networks")]
        listed = engine._asked(list[dict[str, Any]], "/images/json", {"all": "1"})
        images = [f"image {found['Id']} {found['RepoTags']}" for found in listed]
        return frozenset((*containers, *volumes, *networks, *images))

    @override
    @contextmanager
    def foreign(self, state: State) -> Iterator[None]:
        engine, dead = self._engine, dead_stamp()
        stale = {STATE: str(state.root.resolve()), OWNER: dead, SANDBOX: f"{dead}-01234567"}
        engine.import_image(_empty(), IMAGE, {"of": "somebody"})
        engine.import_image(_empty(), LABELLED, stale)
        engine._call("POST", "/networks/create", body={"Name": NETWORK, "Labels": stale})
        made = {
            "lego-rl-0123456789abcdef": (IMAGE, {}),
            f"lego-rl-{dead}-76543210": (IMAGE, {OWNER: dead}),
            f"lego-rl-{own_stamp()}-01234567": (IMAGE, {**stale, OWNER: own_stamp(), SANDBOX: "x"}),
            "somebody-elses": (LABELLED, {}),
        }
        for number, (name, (image, labels)) in enumerate(made.items()):
            volume = {"Type": "volume", "Target": "/v", "Source": f"of-somebody-{number}"}
            config = {"Image": image, "Entrypoint": ["none"]}
            engine.create(name, {**config, "HostConfig": {"NetworkMode": "none", "Mounts": [volume]}}, labels)
        before = self.everything()
        try:
            yield
            assert before <= self.everything(), "something foreign is gone"
        finally:
            for number, name in enumerate(made):
                engine.remove(name)
                engine.remove_volume(f"of-somebody-{number}")
            engine._call("DELETE", f"/networks/{NETWORK}")
            for image in (IMAGE, LABELLED):
                engine._call("DELETE", f"/images/{image}")


def dead_stamp() -> str:
    """Of a process of this namespace that has ended."""
    code = "from lego_rl.owner import own_stamp; print(own_stamp())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _empty() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        folder = tarfile.TarInfo("v")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    return content.getvalue()
