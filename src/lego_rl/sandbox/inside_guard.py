"""Stand-alone module of ``inside.py``: what the first process may do from now on, and everything that it will start.

Invariant: nothing here can be undone by a process of the sandbox.
"""

# ruff: noqa: PTH123

import ctypes
import resource

PR_SET_DUMPABLE, PR_SET_SECCOMP = 4, 22
SECCOMP_MODE_FILTER = 2
FILTER_INSTRUCTION = 8
"""Bytes of a ``struct sock_filter``."""
OPEN_FILES = 4096
"""Most file descriptors of one process: what honest builds and servers have, and few enough for the host to look at
those of all processes, for what was unlinked and is still held takes up disk."""


def limit(processes: int, data: int, file: int) -> None:
    """Set the limits of everything that will run here; processes are counted per user namespace since Linux 5.14.

    Of open files `leave_half_of_the_files` leaves half. Descriptors on their way through sockets are counted per user,
    and one more is refused where there are as many as its sender may open: this process, which sends one, must be able
    to have more of them than whatever runs in any sandbox, and the host's process, which sends many, more than this
    one.
    """
    _, host = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * OPEN_FILES if host == resource.RLIM_INFINITY else min(2 * OPEN_FILES, host // 2)
    wanted = (
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_FSIZE, file),
        (resource.RLIMIT_NOFILE, files),
    )
    for name, value in wanted:
        if value:
            resource.setrlimit(name, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def leave_half_of_the_files() -> None:
    """In a child, before it becomes a program of whoever works here; see `limit`."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files // 2))


def close_to_tracers() -> None:
    """Take from every other process of the same user what ptrace(2) calls access to this one.

    A first process that another one had stopped would never answer the host again. What it executes is open as ever.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the first process cannot be closed to tracers")


class FilterProgram(ctypes.Structure):
    """``struct sock_fprog`` of linux/filter.h."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_calls(path: str) -> None:
    """Put this process, and so all that it will ever start, under the seccomp filter in a file."""
    with open(path, "rb") as stream:
        instructions = stream.read()
    program = FilterProgram(len(instructions) // FILTER_INSTRUCTION, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter cannot be set")
