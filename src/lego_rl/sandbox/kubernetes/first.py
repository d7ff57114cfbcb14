"""Stand-alone program: process 1 of a work container. It waits for its keeper and becomes ``inside.py``.

Invariant: it serves one connection, the first, which is made before anything of the agent's can run; then nobody can
reach it any more but the process that made it.

Run as ``python -I -S first.py INSIDE NAME PROCESSES DATA_BYTES FILE_BYTES``: the path of ``inside.py``, the abstract
name of the socket on which the keeper of the same pod connects, and the limits that ``inside.py`` sets.
"""

import os
import socket
import sys


def main() -> None:
    """Never returns."""
    program, name, *limits = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(f"\0{name}")
        server.listen(1)
        control, _ = server.accept()
    os.set_inheritable(control.fileno(), True)
    os.execv(sys.executable, [sys.executable, "-I", "-S", program, str(control.fileno()), *limits])


if __name__ == "__main__":
    main()
