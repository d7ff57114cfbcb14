"""Who a sandbox is on the host.

Invariant: what runs in a sandbox is never root on the host, nor any user that the host has, where root starts it.
"""

import os
from pathlib import Path

SANDBOX_UID = 1_900_000_001
"""What a sandbox is on the host when root starts it: an id in the range that no tool hands out
(systemd's "Users, Groups, UIDs and GIDs" lists 1879048192 to 2147483647 as unused)."""


def outside_uid() -> int | None:
    """The identity that a sandbox gets on the host: `SANDBOX_UID` as root, ``None`` (the user's own) otherwise."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def owner_uid() -> int:
    """Who owns what sandboxes write: `outside_uid`, or else the user."""
    uid = outside_uid()
    return os.geteuid() if uid is None else uid


def give_to_sandbox(path: Path) -> None:
    """Make the sandbox's identity the owner of `path`, without following a link; nothing to do as an ordinary user."""
    uid = outside_uid()
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)
