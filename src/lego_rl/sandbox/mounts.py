"""A folder or file of the host that a sandbox may read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.outside_user import outside_uid
from lego_rl.sandbox.paths import is_at_or_below


@dataclass(frozen=True)
class Mount:
    """A read-only mount.

    Attributes:
        source: What is shown, on the host.
        target: Where it is shown, absolute inside the sandbox.
    """

    source: Path
    target: str


def read_only(mounts: Mapping[str, str]) -> tuple[Mount, ...]:
    """Mounts from ``{target: source}``, as a recipe or Harbor's keyword arguments can hold them.

    Raises:
        SandboxError: A source is missing or a target is not an absolute, plain path.
    """
    for target, source in mounts.items():
        if not target.startswith("/") or ".." in target.split("/") or target == "/":
            raise SandboxError(f"cannot mount at {target!r}", "name an absolute path below / without '..'")
        if not Path(source).exists():
            raise SandboxError(f"{source} (to be mounted at {target}) does not exist", "install it or mend the path")
    return tuple(Mount(Path(source).resolve(), target) for target, source in mounts.items())


def check_beside(mount: Mount, workdir: str) -> None:
    """Whether a mount leaves the work tree uncovered.

    Raises:
        SandboxError: It does not.
    """
    if is_at_or_below(workdir, mount.target):
        raise SandboxError(f"a mount at {mount.target} would cover the work tree", "mount it elsewhere")


def check_readable(source: Path) -> None:
    """Whether the identity that sandboxes have on the host may read a file or folder.

    Raises:
        SandboxError: It is root's alone.
    """
    status, uid = source.stat(), outside_uid()
    wanted = 0o005 if source.is_dir() else 0o004
    if uid not in (None, status.st_uid) and status.st_mode & wanted != wanted:
        raise SandboxError(f"{source} is private to root, a sandbox cannot read it", f"chmod -R o+rX {source}")
