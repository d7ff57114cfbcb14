"""How what sandboxes wrote is removed from the host.

Invariant: links are removed, never followed, and neither modes nor depth keep anything from being removed.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a folder that a sandbox wrote, whatever modes and depth it has; links are removed, never followed.

    Raises:
        OSError: Something in it cannot be removed.
    """
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        if not os.path.lexists(path):
            return
        # Folders without permissions, or nested beyond what a path can name: the system's tools walk by descriptor.
        subprocess.run(["chmod", "-R", "u+rwX", "--", path], check=False, capture_output=True)
        done = subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True, text=True, errors="replace")
        if done.returncode != 0 and os.path.lexists(path):  # else another process removed it as well, and was faster
            raise OSError(done.stderr.strip().partition("\n")[0]) from None


def remove_kernels_own(folder: Path) -> None:
    """Remove what the kernel makes below an overlay's work folder: without any permission, and its mounter's."""
    with suppress(FileNotFoundError):
        try:
            folder.rmdir()
        except OSError:
            folder.chmod(0o700)
