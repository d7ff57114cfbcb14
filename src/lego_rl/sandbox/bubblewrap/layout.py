"""From an image, mounts and limits to a request for the launcher: which paths are staged, and bubblewrap's arguments.

Invariant: a path of the host appears in a sandbox's arguments only below the launcher's stage, except for the program
folders of the host itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.sandbox.bubblewrap import rootfs
from lego_rl.sandbox.bubblewrap.launcher import STAGE
from lego_rl.sandbox.bubblewrap.preflight import bubblewrap
from lego_rl.sandbox.controlled import FIRST_PROGRAM, INSIDE, INSIDE_MODULES
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.mounts import Mount, check_beside, check_readable
from lego_rl.sandbox.network import write_hosts
from lego_rl.sandbox.programs import compiled
from lego_rl.sandbox.report import REPORT_FOLDER
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.seal_request import KERNEL_FOLDERS, Surroundings, local_neighbours
from lego_rl.sandbox.state import RunFolder, State
from lego_rl.sandbox.system import HOST_FOLDERS, generated_etc
from lego_rl.sandbox.toolchain import Toolchain
from lego_rl.sandbox.user import UID
from lego_rl.tasks.network import NamedHosts, Network

LAUNCHER = Path(__file__).with_name("launcher.py")
NAMESPACES = (
    "--unshare-user", "--uid", str(UID), "--gid", str(UID), "--unshare-pid", "--unshare-net",
    "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent",
    "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """What the launcher is asked for.

    Attributes:
        binds: Host path → name below the stage.
        overlays: ``name``, ``lower`` (the top one first), ``upper`` and ``work`` below the stage.
        arguments: bubblewrap and its arguments, up to those that name descriptors.
        host_folders: What is shown inside that is the host's, and not the task's.
        launcher: The launcher's program.
    """

    launcher: Path
    binds: dict[Path, str] = field(default_factory=dict)
    overlays: list[Mapping[str, str | list[str]]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    host_folders: list[str] = field(default_factory=list)

    @property
    def surroundings(self) -> Surroundings:
        """What the check of the seal takes as given."""
        return Surroundings(host_folders=(*KERNEL_FOLDERS, *self.host_folders), addresses=local_neighbours())

    def stage(self, source: Path) -> str:
        """Have `source` staged; its path there.

        Raises:
            SandboxError: As root: the identity that sandboxes have on the host may not read it.
        """
        check_readable(source)
        name = self.binds.setdefault(source, f"b{len(self.binds)}")
        return f"{STAGE}/{name}"


def plan(
    image: Image,
    toolchain: Toolchain,
    phase: Phase,
    mounts: Sequence[Mount],
    limits: Limits,
    run: RunFolder,
    state: State,
    network: Network,
) -> Layout:
    """Lay a sandbox out. Later mounts cover earlier ones, so the caller's come last.

    Raises:
        SandboxError: bubblewrap is missing, or a mount would cover the work tree.
    """
    layout = Layout(compiled(LAUNCHER, state))
    git = image.git_layer(phase)
    run_name = layout.binds.setdefault(run.path, "run")
    etc = layout.stage(generated_etc(state))
    arguments = [bubblewrap(), *NAMESPACES]
    if image.rootfs is None:
        arguments += rootfs.host_root(etc)
        layout.host_folders.extend(HOST_FOLDERS)
    else:
        below = [image.rootfs] if git is None else [git, image.rootfs]
        layout.overlays.append(_overlay("root", layout, below, f"{run_name}/root-upper", f"{run_name}/root-work"))
        arguments += rootfs.folder_root(image.rootfs, f"{STAGE}/root", etc)
    if isinstance(network, NamedHosts):
        write_hosts(run.hosts, network)
        arguments += ["--ro-bind", f"{STAGE}/{run_name}/{run.hosts.name}", "/etc/hosts"]
    arguments += rootfs.kernel_mounts()
    arguments += rootfs.scratch_mounts(limits)
    below = [folder for folder in (image.git_of_work_tree(phase), image.pristine) if folder is not None]
    layout.overlays.append(_overlay("tree", layout, below, f"{run_name}/upper", f"{run_name}/work"))
    arguments += ["--bind", f"{STAGE}/tree", image.workdir]
    arguments += ["--bind", f"{STAGE}/{run_name}/report", REPORT_FOLDER]
    arguments += ["--ro-bind", layout.stage(compiled(INSIDE, state, INSIDE_MODULES)), FIRST_PROGRAM]
    for mount in (*toolchain.mounts, *mounts):
        check_beside(mount, image.workdir)
        arguments += ["--ro-bind", layout.stage(mount.source), mount.target]
        layout.host_folders.append(mount.target)
    if image.rootfs is None:
        arguments += ["--remount-ro", "/"]
    if toolchain.library_path is not None:
        arguments += ["--setenv", "LD_LIBRARY_PATH", toolchain.library_path]
    arguments += ["--chdir", image.workdir]
    layout.arguments.extend(arguments)
    return layout


def _overlay(name: str, layout: Layout, lower: Sequence[Path], upper: str, work: str) -> dict[str, str | list[str]]:
    staged = [layout.stage(folder).removeprefix(f"{STAGE}/") for folder in lower]
    return {"name": name, "lower": staged, "upper": upper, "work": work}
