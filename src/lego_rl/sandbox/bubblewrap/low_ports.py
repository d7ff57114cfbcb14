"""Stand-alone program: let the processes of a sandbox's network namespace bind ports below 1024.

Run as ``python -I -S low_ports.py PID`` by the owner of the sandbox, on the host. Nothing else is changed, and nothing
outside the network namespace of that process is. The namespace belongs to a user namespace in which the sandbox's
owner has every capability, and the sandbox has none.
"""

# pathlib would be most of the start-up time.
# ruff: noqa: PTH123

import fcntl
import os
import sys

NS_GET_USERNS = 0xB701
"""ioctl_ns(2): the user namespace that a namespace belongs to."""
SWITCH = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def main() -> None:
    """Enter the namespaces and set the switch there."""
    network = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    os.setns(owner, os.CLONE_NEWUSER)
    os.setns(network, os.CLONE_NEWNET)
    with open(SWITCH, "w") as switch:
        switch.write("0")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(70)
