"""Whether this machine can build sandboxes at all, asked once and before anything is measured.

Invariant: every way in which it cannot is one `SandboxError` that names the one command that mends it. Nothing is
changed on the machine.
"""

import os
import shutil
import subprocess
from pathlib import Path

from lego_rl.errors import SandboxError

INSTALL = "apt-get install bubblewrap"
USERNS_SWITCHES = {
    "kernel.unprivileged_userns_clone": ("0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    "user.max_user_namespaces": ("0", "sudo sysctl -w user.max_user_namespaces=15000"),
    "kernel.apparmor_restrict_unprivileged_userns": (
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Kernel setting → the value that forbids user namespaces, and what allows them again."""


def bubblewrap() -> str:
    """The path of bubblewrap.

    Raises:
        SandboxError: It is not installed.
    """
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("bubblewrap is not installed", f"run: {INSTALL}")
    return found


def check_machine() -> None:
    """Try what a sandbox needs, in the cheapest way there is.

    Raises:
        SandboxError: bubblewrap, user namespaces or overlays do not work here.
    """
    probe = [
        bubblewrap(),
        "--unshare-user",
        "--unshare-net",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "true",
    ]
    try:
        result = subprocess.run(probe, capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        raise SandboxError(f"bubblewrap cannot be started: {error}", f"run: {INSTALL}") from error
    if result.returncode != 0:
        raise SandboxError(f"bubblewrap does not work here: {result.stderr.strip()}", _advice())
    if "overlay" not in Path("/proc/filesystems").read_text().split() and os.geteuid() != 0:
        raise SandboxError("the kernel has no overlay file system", "sudo modprobe overlay")


def _advice() -> str:
    for name, (forbidding, fix) in USERNS_SWITCHES.items():
        path = Path("/proc/sys", *name.split("."))
        if path.is_file() and path.read_text().strip() == forbidding:
            return f"allow user namespaces: {fix}"
    return "run on a machine or container that allows user namespaces (in Docker: --security-opt seccomp=unconfined)"
