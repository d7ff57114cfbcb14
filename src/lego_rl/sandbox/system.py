"""The system that a sandbox sees, in every environment: names, folders of programs, what of the kernel is covered.

Invariant: names of users and hosts are generated, so that no sandbox learns those of the machine.
"""

import shutil
from pathlib import Path

from lego_rl.sandbox.state import State
from lego_rl.sandbox.user import HOME, UID, USER

ETC = {
    "passwd": f"root:x:0:0:root:/:/usr/sbin/nologin\n{USER}:x:{{uid}}:{{uid}}:{USER}:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": f"root:x:0:\n{USER}:x:{{uid}}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "nsswitch-dns.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "os-release": 'ID=linux\nNAME="Linux"\nPRETTY_NAME="Linux"\n',
}
COPIED_FROM_HOST = ("ld.so.cache", "mime.types")
MOUNT_POINTS = ("alternatives", "ssl/certs")
"""Folders of ``/etc`` in which the host's own may be shown."""
SCRATCH = (("/dev/shm", "1777"), ("/tmp", "1777"), ("/var/tmp", "1777"), (HOME, "0755"), ("/logs", "0755"))
READ_ONLY_IN_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi")
HIDDEN_IN_PROC = ("kcore", "keys", "key-users", "kmsg", "timer_list", "sched_debug", "latency_stats", "kallsyms")
PROGRAM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
HOST_FOLDERS = ("/usr", *(f"/{name}" for name in PROGRAM_FOLDERS))
"""Where the host's own programs are, when they are the root."""
REPLACED_IN_IMAGE = ("passwd", "group", "hosts", "resolv.conf")


def generated_etc(state: State, uid: int = UID) -> Path:
    """The folder with the generated ``/etc``; written once.

    Args:
        state: Where it is kept.
        uid: Who the agent is inside.
    """
    folder = state.root / f"etc-{uid}"
    if folder.is_dir():
        return folder
    with state.making(folder) as made:
        for name in MOUNT_POINTS:
            (made / name).mkdir(parents=True)
        for name, content in ETC.items():
            (made / name).write_text(content.replace("{uid}", str(uid)))
        for name in COPIED_FROM_HOST:
            if (source := Path("/etc") / name).is_file():
                shutil.copyfile(source, made / name)
        for path in (made, *made.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    return folder
