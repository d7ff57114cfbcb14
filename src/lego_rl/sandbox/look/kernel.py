"""What of the kernel's own protection is missing, seen from inside."""

# pathlib would be most of the run time.
# ruff: noqa: PTH123

import os

KERNEL = "kernel"
KERNEL_SWITCHES = (
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/sys/fs/cgroup",
)
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
LOCKS = {"NoNewPrivs": "1", "Seccomp": "2"}


def holes(fields: "list[str]") -> "list[tuple[str, str]]":
    """Kinds and sentences of what is found."""
    return [(KERNEL, said) for said in open_locks()]


def open_locks() -> "list[str]":
    """Writable kernel switches, capabilities, and locks that are off."""
    found = [f"{path} is writable" for path in KERNEL_SWITCHES if os.access(path, os.W_OK)]
    with open("/proc/self/status") as stream:
        status = dict(line.split(":\t", 1) for line in stream.read().splitlines() if ":\t" in line)
    found += [f"{name} is {status[name]}" for name in CAPABILITY_SETS if int(status[name], 16)]
    return found + [f"{name} is {status.get(name)}" for name, wanted in LOCKS.items() if status.get(name) != wanted]
