"""Stand-alone program: process 1 of a work container. It waits for its keeper and becomes ``inside.py``.

Invariant: it serves one connection, the first, which is made before anything of the agent's can run, and then removes
the socket. Nothing that is ever started here has the variables that the cluster gave the container.

Run as ``python -I -S first.py SOCKET INSIDE ARGUMENT...``: the path on which the keeper of the same pod connects, the
path of ``inside.py``, and its arguments after the first.
"""

# ruff: noqa: PTH108

import os
import socket
import sys


def main() -> None:
    """Never returns."""
    path, program, *arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(1)
        control, _ = server.accept()
    os.unlink(path)
    os.set_inheritable(control.fileno(), True)
    os.execve(sys.executable, [sys.executable, "-I", "-S", program, str(control.fileno()), *arguments], {})


if __name__ == "__main__":
    main()
