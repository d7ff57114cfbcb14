"""The system calls that a sandbox may not make.

Invariant: what is refused is refused on every architecture that the filter knows, and a call by any other architecture
or ABI ends the process, so that no second numbering gets around the list.

Namespaces, dropped capabilities and ``no_new_privs`` already keep a sandbox in. The filter takes away what they leave:
address families that no network namespace holds back (``AF_VSOCK`` reaches the hypervisor's host), key rings (shared
by all processes of a user), new user namespaces (the usual door to kernel bugs), and kernel interfaces that no
build, test or harness needs. And it keeps the limits of a sandbox's first process from the others, who run as the same
user: where they lowered its processor time, the kernel would kill it by a signal that looks like one from outside.

Numbers: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

import errno
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lego_rl.errors import SandboxError
from lego_rl.sandbox.bpf import (
    ARCH_OFFSET,
    JUMP_IF_ANY_BIT,
    JUMP_IF_AT_LEAST,
    JUMP_IF_EQUAL,
    NR_OFFSET,
    Jump,
    Label,
    Load,
    Return,
    Statement,
    argument_offset,
    assemble,
)

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
ERRNO = 0x00050000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
X32_BIT = 0x40000000
FIRST_PROCESS = 1
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""``CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}``."""


@dataclass(frozen=True)
class Architecture:
    """System-call numbers of one machine type.

    Attributes:
        audit: ``AUDIT_ARCH_*`` value that the kernel reports.
        refused: Name → number of calls that fail with ``EPERM``.
        absent: Name → number of calls that fail with ``ENOSYS``, for which every program has a fallback.
        socket: Number of ``socket``.
        socketpair: Number of ``socketpair``.
        clone: Number of ``clone``.
        unshare: Number of ``unshare``.
        ioctl: Number of ``ioctl``.
        prlimit: Number of ``prlimit64``.
        x32: Whether numbers from `X32_BIT` on are a second ABI.
    """

    audit: int
    refused: dict[str, int]
    absent: dict[str, int]
    socket: int
    socketpair: int
    clone: int
    unshare: int
    ioctl: int
    prlimit: int
    x32: bool


_COMMON_NEW = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_COMMON_ABSENT = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435}

X86_64 = Architecture(
    audit=0xC000003E,
    refused={
        "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "swapon": 167, "swapoff": 168,
        "reboot": 169, "acct": 163, "quotactl": 179, "init_module": 175, "delete_module": 176, "finit_module": 313,
        "kexec_load": 246, "kexec_file_load": 320, "iopl": 172, "ioperm": 173, "syslog": 103, "settimeofday": 164,
        "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "vhangup": 153, "lookup_dcookie": 212, "nfsservctl": 180, "modify_ldt": 154,
        "uselib": 134, "ustat": 136, "sysfs": 139, "_sysctl": 156, **_COMMON_NEW,
    },
    absent=_COMMON_ABSENT,
    socket=41, socketpair=53, clone=56, unshare=272, ioctl=16, prlimit=302, x32=True,
)  # fmt: skip
AARCH64 = Architecture(
    audit=0xC00000B7,
    refused={
        "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "swapon": 224, "swapoff": 225,
        "reboot": 142, "acct": 89, "quotactl": 60, "init_module": 105, "delete_module": 106, "finit_module": 273,
        "kexec_load": 104, "kexec_file_load": 294, "syslog": 116, "settimeofday": 170, "clock_settime": 112,
        "adjtimex": 171, "clock_adjtime": 266, "name_to_handle_at": 264, "open_by_handle_at": 265, "vhangup": 58,
        "lookup_dcookie": 18, "nfsservctl": 42, **_COMMON_NEW,
    },
    absent=_COMMON_ABSENT,
    socket=198, socketpair=199, clone=220, unshare=97, ioctl=29, prlimit=261, x32=False,
)  # fmt: skip
ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}


def program(architecture: Architecture) -> list[Statement]:
    """The filter as a program: architecture, ABI, plain refusals, then the calls whose arguments decide."""
    return [
        Load(ARCH_OFFSET),
        Jump(JUMP_IF_EQUAL, architecture.audit, if_false="kill"),
        Load(NR_OFFSET),
        *([Jump(JUMP_IF_AT_LEAST, X32_BIT, if_true="absent")] if architecture.x32 else []),
        *(Jump(JUMP_IF_EQUAL, number, if_true="absent") for number in architecture.absent.values()),
        *(Jump(JUMP_IF_EQUAL, number, if_true="refuse") for number in architecture.refused.values()),
        Jump(JUMP_IF_EQUAL, architecture.socket, if_true="socket"),
        Jump(JUMP_IF_EQUAL, architecture.socketpair, if_true="socket"),
        Jump(JUMP_IF_EQUAL, architecture.clone, if_true="flags"),
        Jump(JUMP_IF_EQUAL, architecture.unshare, if_true="flags"),
        Jump(JUMP_IF_EQUAL, architecture.prlimit, if_true="limits"),
        Jump(JUMP_IF_EQUAL, architecture.ioctl, if_true="ioctl", if_false="allow"),
        *_decide_by_argument(),
        Label("allow"),
        Return(ALLOW),
        Label("refuse"),
        Return(ERRNO | errno.EPERM),
        Label("absent"),
        Return(ERRNO | errno.ENOSYS),
        Label("no family"),
        Return(ERRNO | errno.EAFNOSUPPORT),
        Label("kill"),
        Return(KILL_PROCESS),
    ]


def _decide_by_argument() -> Iterator[Statement]:
    yield Label("socket")
    yield Load(argument_offset(0))
    for family in (AF_UNIX, AF_INET, AF_INET6):
        yield Jump(JUMP_IF_EQUAL, family, if_true="allow")
    yield Jump(JUMP_IF_EQUAL, AF_NETLINK, if_false="no family")
    # Listing interfaces (getifaddrs) goes through NETLINK_ROUTE; every other netlink protocol is kernel surface.
    yield Load(argument_offset(2))
    yield Jump(JUMP_IF_EQUAL, NETLINK_ROUTE, if_true="allow", if_false="no family")
    yield Label("flags")
    yield Load(argument_offset(0))
    yield Jump(JUMP_IF_ANY_BIT, NEW_NAMESPACES, if_true="refuse", if_false="allow")
    yield Label("limits")
    yield Load(argument_offset(0))
    # A sandbox makes no process namespaces, so nobody in it can name its first process otherwise; it says 0 itself.
    yield Jump(JUMP_IF_EQUAL, FIRST_PROCESS, if_true="refuse", if_false="allow")
    yield Label("ioctl")
    yield Load(argument_offset(1))
    yield Jump(JUMP_IF_EQUAL, TIOCSTI, if_true="refuse")
    yield Jump(JUMP_IF_EQUAL, TIOCLINUX, if_true="refuse", if_false="allow")


@cache
def compiled() -> bytes:
    """The filter for this machine.

    Raises:
        SandboxError: There is no system-call table for this machine's architecture.
    """
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise SandboxError(
            f"no seccomp filter for machine type {platform.machine()}", f"use one of {', '.join(ARCHITECTURES)}"
        )
    return assemble(program(architecture))


def filter_descriptor() -> int:
    """A new descriptor from which bubblewrap reads the filter; the caller closes it."""
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(descriptor, compiled())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
