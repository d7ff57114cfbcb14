"""Which daemon sandboxes are started by, and what it lacks for that, as far as it says so itself.

Invariant: every way in which it cannot is one `SandboxError` that names what mends it. Nothing is changed on the
machine, and no daemon is started.
"""

import os
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox import seccomp
from lego_rl.sandbox.docker.engine import Engine

DEFAULT_HOST = "unix:///var/run/docker.sock"
OWN = 'eval "$(scripts/dockerd.sh start)"'
MAPPED = {
    "name=rootless": "is rootless",
    "name=userns": "maps user ids",
}
"""What a daemon says of itself when the ids in its containers are not those of the host."""


def engine_of(host: str | None) -> Engine:
    """The daemon at a host as Docker's own tools write it, by default the one that they would use.

    Raises:
        SandboxError: It is on another machine: sandboxes need files and sockets of this one.
    """
    where = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    if not where.startswith("unix:///"):
        raise SandboxError(f"the Docker daemon at {where} may be on another machine", f"use one on this machine: {OWN}")
    return Engine(Path(where.removeprefix("unix://")))


def check_daemon(engine: Engine) -> None:
    """Ask a daemon whether it can isolate agents.

    Raises:
        SandboxError: It is not there, not on this machine, maps user ids, or cannot hold limits.
    """
    seccomp.compiled()
    info = engine.info()
    where = f"the Docker daemon at {engine.socket}"
    if (info.os_type, info.kernel_version) != ("linux", os.uname().release):
        raise SandboxError(f"{where} runs on another machine or in a virtual one", f"use one on this machine: {OWN}")
    for option in info.security_options or ():
        if (mapped := MAPPED.get(option.partition(",")[0])) is not None:
            raise SandboxError(f"{where} {mapped}, so work trees would belong to nobody", f"use another one: {OWN}")
    limits = {"MemoryLimit": info.memory_limit, "PidsLimit": info.pids_limit}
    missing = [name for name, is_held in limits.items() if not is_held]
    if missing:
        raise SandboxError(f"{where} cannot hold limits ({' and '.join(missing)})", "let it use control groups")
