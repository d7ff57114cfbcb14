"""The mounts of a sandbox, as bubblewrap arguments.

Invariant: of the host a sandbox sees programs (``/usr`` and the links into it), a generated ``/etc`` and what the
caller mounts, all read-only; never a home, ``/var``, ``/opt``, ``/srv``, ``/tmp``, ``/sys`` or a device beyond null,
zero, full, random, urandom and tty. What it can write is the work tree's overlay and bounded temporary file systems.
"""

from pathlib import Path

from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.system import (
    HIDDEN_IN_PROC,
    PROGRAM_FOLDERS,
    READ_ONLY_IN_PROC,
    REPLACED_IN_IMAGE,
    SCRATCH,
)


def host_root(etc: str) -> list[str]:
    """The host's programs, and the generated ``/etc`` that is staged at `etc`."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in PROGRAM_FOLDERS:
        path = Path("/") / name
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return [*arguments, "--ro-bind", etc, "/etc", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]


def folder_root(rootfs: Path, merged: str, etc: str) -> list[str]:
    """The overlay over an unpacked image, staged at `merged`; names of users and hosts are the generated ones."""
    arguments = ["--bind", merged, "/"]
    for name in REPLACED_IN_IMAGE:
        if (rootfs / "etc" / name).is_file():
            arguments += ["--ro-bind", f"{etc}/{name}", f"/etc/{name}"]
    return arguments


def kernel_mounts() -> list[str]:
    """``/proc`` with its switches covered, a minimal ``/dev``."""
    arguments = ["--proc", "/proc"]
    for name in READ_ONLY_IN_PROC:
        if Path("/proc", name).exists():
            arguments += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    for name in HIDDEN_IN_PROC:
        if Path("/proc", name).exists():
            arguments += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [*arguments, "--dev", "/dev"]


def scratch_mounts(limits: Limits) -> list[str]:
    """Bounded temporary file systems: shared memory, temporary files, the home directory, ``/logs``."""
    size = str(limits.scratch_mb << 20)
    arguments: list[str] = []
    for target, mode in SCRATCH:
        arguments += ["--perms", mode, "--size", size, "--tmpfs", target]
    return [*arguments, "--remount-ro", "/dev"]
