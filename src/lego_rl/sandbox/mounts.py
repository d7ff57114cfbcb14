"""A folder or file of the host that a sandbox may read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lego_rl.errors import SandboxError


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
