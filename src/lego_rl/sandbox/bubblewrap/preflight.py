"""What a machine lacks to build sandboxes, as far as that can be told without building one (`probe` builds one).

Invariant: every way in which it cannot is one `SandboxError` that names the one command that mends it. Nothing is
changed on the machine.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox import seccomp

INSTALL = "apt-get install bubblewrap"
PROBE_SECONDS = 20.0
OLDEST_KERNEL = (5, 14)
"""Overlays in user namespaces came with 5.11, process limits per user namespace with 5.14."""
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
        SandboxError: bubblewrap, user namespaces or seccomp do not work here, or the kernel is too old for overlays.
    """
    program = bubblewrap()
    seccomp.compiled()
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release is not None and tuple(map(int, release.groups())) < OLDEST_KERNEL:
        wanted = ".".join(map(str, OLDEST_KERNEL))
        raise SandboxError(
            f"sandboxes need Linux {wanted} or later, and this is {os.uname().release}",
            "install a newer kernel (apt-get install linux-image-generic, and reboot) or use another machine",
        )
    namespaces = ["--unshare-user", "--unshare-net", "--unshare-pid"]
    probe = [program, *namespaces, "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    try:
        result = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except OSError as error:
        raise SandboxError(f"bubblewrap cannot be started: {error}", f"run: {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"bubblewrap did not end within {PROBE_SECONDS:.0f} s", "look for a stuck kernel") from error
    if result.returncode != 0:
        raise SandboxError(f"bubblewrap does not work here: {result.stderr.strip()}", _advice())


def _advice() -> str:
    for name, (forbidding, fix) in USERNS_SWITCHES.items():
        path = Path("/proc/sys", *name.split("."))
        if path.is_file() and path.read_text().strip() == forbidding:
            return f"allow user namespaces: {fix}"
    return "run on a machine or container that allows user namespaces (in Docker: --security-opt seccomp=unconfined)"
