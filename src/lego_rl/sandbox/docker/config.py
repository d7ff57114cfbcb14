"""What Docker is asked for: one container, with everything in it that isolates.

Invariant: what an agent can write is its work tree's overlay, the report and bounded temporary file systems; the
container's own layer is read-only. Nothing of the host is shown but read-only, and with it nothing that is mounted
below it, unless that is read-only too.

Source: ``POST /containers/create`` of the Engine API; overlays by the kernel's Documentation/filesystems/overlayfs.rst.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lego_rl.errors import SandboxError
from lego_rl.sandbox.controlled import FIRST_PROGRAM, INSIDE, INSIDE_MODULES
from lego_rl.sandbox.docker.origin import Origin
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.mountinfo import OWN, mounted
from lego_rl.sandbox.mounts import Mount, check_beside, check_readable
from lego_rl.sandbox.network import write_hosts
from lego_rl.sandbox.paths import is_at_or_below
from lego_rl.sandbox.programs import compiled
from lego_rl.sandbox.report import REPORT_FOLDER
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import KERNEL_FOLDERS, Surroundings, local_neighbours
from lego_rl.sandbox.state import RunFolder
from lego_rl.sandbox.system import HIDDEN_IN_PROC, HOST_FOLDERS, READ_ONLY_IN_PROC, SCRATCH
from lego_rl.tasks.network import NamedHosts, Network, PublicNetwork

MOUNTS = OWN
CONTROL_FOLDER = "/run/control"
LOOPBACK_ONLY, BRIDGE = "none", "bridge"
"""Networks of every daemon: a loopback and nothing else; whatever the machine reaches."""
ANY_PORT = {"net.ipv4.ip_unprivileged_port_start": "0"}
"""Lets what listens for named hosts have the ports that those have; the switch is the container's own."""
SOCKET, FILTER = "socket", "filter"
HIDDEN = ("/sys", "/proc/acpi", "/proc/scsi", "/proc/asound", *(f"/proc/{name}" for name in HIDDEN_IN_PROC))
READ_ONLY = tuple(f"/proc/{name}" for name in READ_ONLY_IN_PROC)
LOG = {"Type": "json-file", "Config": {"max-size": "64k", "max-file": "1"}}
"""For what a first process says that cannot start; later it says nothing."""
ISOLATION = {
    "ReadonlyRootfs": True,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges:true"],
    "IpcMode": "none",
    "CgroupnsMode": "private",
    "MaskedPaths": HIDDEN,
    "ReadonlyPaths": READ_ONLY,
    "LogConfig": LOG,
}
"""What every container has in common."""


def container(
    origin: Origin, phase: Phase, mounts: Iterable[Mount], limits: Limits, run: RunFolder, network: Network
) -> dict[str, Any]:
    """The body of the request.

    Args:
        origin: What it starts from.
        phase: What it is for.
        mounts: What else of the host is shown, read-only.
        limits: What it may use.
        run: What it writes on the host.
        network: What it may reach.

    Raises:
        SandboxError: A mount would cover the work tree, or the run folder has a name that no overlay can have.
    """
    toolchain = origin.toolchain
    shown = [*_host_mounts(origin, mounts), *_names(origin, run, network), Mount(run.control, CONTROL_FOLDER)]
    for mount in shown:
        check_beside(mount, origin.workdir)
        check_readable(mount.source)
    return {
        "Image": origin.root.image,
        "Hostname": "sandbox",
        "User": f"{origin.uid}:{origin.uid}",
        "WorkingDir": origin.workdir,
        "Entrypoint": [toolchain.interpreter, "-I", "-S", FIRST_PROGRAM],
        "Cmd": [f"{CONTROL_FOLDER}/{SOCKET}", "0", "0", str(limits.disk_mb << 20), f"{CONTROL_FOLDER}/{FILTER}"],
        "Env": [f"LD_LIBRARY_PATH={toolchain.library_path}"] if toolchain.library_path is not None else [],
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **ISOLATION,
            **_bounds(limits),
            "NetworkMode": BRIDGE if isinstance(network, PublicNetwork) else LOOPBACK_ONLY,
            "Sysctls": ANY_PORT if isinstance(network, NamedHosts) else {},
            "Tmpfs": _scratch(origin, limits),
            "Mounts": [
                *map(_bind, _with_what_is_below(shown)),
                _bind(Mount(run.report, REPORT_FOLDER)) | {"ReadOnly": False},
                _work_tree(origin, phase, run),
            ],
        },
    }


def _bounds(limits: Limits) -> dict[str, Any]:
    """What it may use, as far as control groups and the kernel hold it."""
    memory = limits.memory_mb << 20
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": limits.processes,
    }


def _names(origin: Origin, run: RunFolder, network: Network) -> list[Mount]:
    """The files that say which hosts there are."""
    if isinstance(network, PublicNetwork):
        return list(origin.root.online)
    names = list(origin.root.offline)
    if isinstance(network, NamedHosts):
        write_hosts(run.hosts, network)
        names.append(Mount(run.hosts, "/etc/hosts"))
    return names


def surroundings(origin: Origin, mounts: Iterable[Mount]) -> Surroundings:
    """What the check of the seal takes as given."""
    targets = [mount.target for mount in _host_mounts(origin, mounts)]
    folders = (*KERNEL_FOLDERS, *(HOST_FOLDERS if origin.root.is_host else ()), *targets)
    return Surroundings(host_folders=folders, addresses=local_neighbours())


def _host_mounts(origin: Origin, mounts: Iterable[Mount]) -> list[Mount]:
    """What of the host is shown."""
    return [
        *origin.root.mounts,
        *origin.toolchain.mounts,
        Mount(compiled(INSIDE, origin.state, INSIDE_MODULES), FIRST_PROGRAM),
        *mounts,
    ]


def _scratch(origin: Origin, limits: Limits) -> dict[str, str]:
    """Bounded temporary file systems, also where the image would have had a volume of any size."""
    volumes = (target.rstrip("/") for target in origin.root.volumes)
    places = {target: "0755" for target in volumes if not is_at_or_below(origin.workdir, target)}
    options = f"rw,exec,nosuid,nodev,size={limits.scratch_mb << 20},uid={origin.uid},gid={origin.uid}"
    return {target: f"{options},mode={mode}" for target, mode in {**places, **dict(SCRATCH)}.items()}


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": mount.target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


def _work_tree(origin: Origin, phase: Phase, run: RunFolder) -> dict[str, Any]:
    """An overlay as a volume: the daemon mounts it when the container starts and unmounts it when it has ended."""
    lower = [folder for folder in (origin.prepared.git_of_work_tree(phase), origin.pristine) if folder is not None]
    for path in (*lower, run.upper, run.work):
        if re.search(r"[,:\\\"]", str(path)):
            raise SandboxError(
                f"{path} cannot be a layer of an overlay", "set sandbox.state to a folder with a plain name"
            )
    options = f"userxattr,nosuid,nodev,lowerdir={':'.join(map(str, lower))},upperdir={run.upper},workdir={run.work}"
    return {
        "Type": "volume",
        "Target": origin.workdir,
        "VolumeOptions": {
            "NoCopy": True,
            "DriverConfig": {
                "Name": "local",
                "Options": {"type": "overlay", "device": "overlay", "o": options},
            },
        },
    }


def _with_what_is_below(mounts: Iterable[Mount]) -> Iterable[Mount]:
    """Mounts, and what is mounted below their sources as mounts of its own: only so is all of it read-only."""
    points = [Path(each.point) for each in mounted(MOUNTS)]
    shown: dict[str, Mount] = {}
    for mount in mounts:
        for point in points:
            if point != mount.source and point.is_relative_to(mount.source):
                below = f"{mount.target.rstrip('/')}/{point.relative_to(mount.source)}"
                shown.setdefault(below, Mount(point, below))
        shown[mount.target] = mount
    return shown.values()
