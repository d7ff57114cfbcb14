"""Stand-alone program: process 1 of a work container. It waits for its keeper and becomes ``inside.py``.

Invariant: it serves one connection, the first, which is made before anything of the agent's can run, and then removes
the socket. Everything that is ever started here is under the seccomp filter, and nothing has the variables that the
cluster gave the container.

Run as ``python -I -S first.py SOCKET FILTER INSIDE PROCESSES DATA_BYTES FILE_BYTES``: the path on which the keeper of
the same pod connects, a file with the filter, the path of ``inside.py``, and the limits that it sets.
"""

# ruff: noqa: PTH108, PTH123

import ctypes
import os
import socket
import sys

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
FILTER_INSTRUCTION = 8
"""Bytes of a ``struct sock_filter``."""


class FilterProgram(ctypes.Structure):
    """``struct sock_fprog`` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls(path: str) -> None:
    """Put this process, and so all that it will ever start, under the filter in a file."""
    with open(path, "rb") as stream:
        instructions = stream.read()
    program = FilterProgram(len(instructions) // FILTER_INSTRUCTION, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter cannot be set")


def main() -> None:
    """Never returns."""
    path, rules, program, *limits = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)
        control, _ = server.accept()
    os.unlink(path)
    refuse_calls(rules)
    os.set_inheritable(control.fileno(), True)
    os.execve(sys.executable, [sys.executable, "-I", "-S", program, str(control.fileno()), *limits], {})


if __name__ == "__main__":
    main()
