"""The mounts of a sandbox, as bubblewrap arguments.

Invariant: of the host a sandbox sees programs (``/usr`` and the links into it), a generated ``/etc`` and what the
caller mounts, all read-only; never a home, ``/var``, ``/opt``, ``/srv``, ``/tmp``, ``/sys`` or a device beyond null,
zero, full, random, urandom and tty. What it can write is the work tree's overlay and bounded temporary file systems.
"""

import shutil
import tempfile
from pathlib import Path

from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.state import State
from lego_rl.sandbox.user import HOME, UID, USER

ETC = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\n{USER}:x:{UID}:{UID}:{USER}:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": f"root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "os-release": 'ID=linux\nNAME="Linux"\nPRETTY_NAME="Linux"\n',
}
COPIED_FROM_HOST = ("ld.so.cache", "mime.types")
SCRATCH = (("/dev/shm", "1777"), ("/tmp", "1777"), ("/var/tmp", "1777"), (HOME, "0755"), ("/logs", "0755"))
READ_ONLY_IN_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi")
HIDDEN_IN_PROC = ("kcore", "keys", "key-users", "kmsg", "timer_list", "sched_debug", "latency_stats", "kallsyms")
PROGRAM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
HOST_FOLDERS = ("/usr", *(f"/{name}" for name in PROGRAM_FOLDERS))
"""Where the host's own programs are, when they are the root."""
REPLACED_IN_IMAGE = ("passwd", "group", "hosts", "resolv.conf")


def generated_etc(state: State) -> Path:
    """The folder with the generated ``/etc``; written once."""
    folder = state.root / "etc"
    if folder.is_dir():
        return folder
    state.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state.root, prefix="build-") as scratch:
        made = Path(scratch) / "etc"
        (made / "alternatives").mkdir(parents=True)
        for name, content in ETC.items():
            (made / name).write_text(content)
        for name in COPIED_FROM_HOST:
            if (source := Path("/etc") / name).is_file():
                shutil.copyfile(source, made / name)
        for path in (made, *made.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


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
