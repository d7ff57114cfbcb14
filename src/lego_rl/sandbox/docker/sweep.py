"""What an overlay leaves that belongs to root, removed for a user who is not.

Invariant: what runs as root is the host's own ``rm``, in a container without a network that is shown one folder: where
the kernel kept its scratch for a work tree, which no sandbox ever saw.

The daemon mounts a work tree's overlay, so the kernel's own folder beside it belongs to root, and is not always empty.
"""

import os

from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.labels import Mark
from lego_rl.sandbox.docker.root import host_root
from lego_rl.sandbox.outside_user import owner_uid
from lego_rl.sandbox.state import RunFolder, State

PLACE = "/run/scratch"


def sweep(engine: Engine, state: State, run: RunFolder) -> None:
    """Empty the kernel's folder of an overlay that is no longer mounted; root can do that without any container.

    Raises:
        DaemonError: The daemon does not do it.
    """
    scratch = run.work / "work"
    if os.geteuid() == 0 or not scratch.is_dir() or scratch.stat().st_uid == os.geteuid():
        return
    root = host_root(engine, state, owner_uid())
    mark = Mark.of_run(state, run)
    name = mark.name("sweep")
    binds = [
        {"Type": "bind", "Source": str(each.source), "Target": each.target, "ReadOnly": True} for each in root.mounts
    ]
    engine.create(
        name,
        {
            "Image": root.image,
            "User": "0:0",
            "Entrypoint": ["rm", "-rf", "--", f"{PLACE}/work"],
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "CapAdd": ["DAC_OVERRIDE"],
                "SecurityOpt": ["no-new-privileges:true"],
                "Mounts": [*binds, {"Type": "bind", "Source": str(run.work), "Target": PLACE}],
            },
        },
        mark.labels,
    )
    try:
        engine.start(name)
        engine.wait(name)
    finally:
        engine.remove(name)
