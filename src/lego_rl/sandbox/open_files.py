"""How many files this process may open: more than any process of a sandbox.

Invariant: no sandbox keeps this process from talking to another one. Every request to a sandbox carries descriptors.
The kernel counts those that are on their way through sockets per user, and refuses to send one more where the count is
over the sender's own limit of open files. What runs in a sandbox may be the same user to the kernel, so it must not be
able to have as many on their way as this process may open.
"""

import resource

ENOUGH = 16_384
"""Four times what a process of a sandbox may open (`inside_guard.OPEN_FILES`), and twice what its first process may."""


def allow_enough() -> None:
    """Raise this process's own limit as far as it may; where that is less, sandboxes are given a quarter of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
