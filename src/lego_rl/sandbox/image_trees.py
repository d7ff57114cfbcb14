"""The work trees that images bring, each taken out of its image once.

Invariant: a tree is named by the content of its image (an id or a digest) and by where it is in it, so one that is kept
is that of the image that a sandbox starts from; and all are bounded, whoever takes them out.
"""

import hashlib
from pathlib import Path

from lego_rl.errors import SandboxError
from lego_rl.sandbox.state import State

MAX_BYTES = 8 << 30
"""Of the files in a work tree: it is copied once for each task and measured in each sandbox."""
MAX_ENTRIES = 500_000
"""Files, folders and links in it: each is walked for each state of a task."""


def place_of(state: State, identity: str, workdir: str) -> Path:
    """Where the tree of an image is kept, once it has been taken out.

    Args:
        state: The folder of caches.
        identity: Id or digest of the image.
        workdir: Where the tree is in it.
    """
    return state.image_trees / hashlib.sha256(f"{identity} {workdir}".encode()).hexdigest()[:24]


def check_size(size: int, entries: int) -> None:
    """Refuse a tree that is too large.

    Args:
        size: Bytes of its files.
        entries: Files, folders and links.

    Raises:
        SandboxError: It is.
    """
    if size > MAX_BYTES or entries > MAX_ENTRIES:
        raise SandboxError(
            f"the image's work tree is larger than {MAX_BYTES >> 30} GiB or {MAX_ENTRIES} paths",
            "name a smaller work directory, or keep data elsewhere in the image",
        )
