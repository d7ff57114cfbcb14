"""What a recipe may say of sandboxes.

Invariant: importing this module imports neither Harbor nor torch, so that a recipe can be read without them.
"""

from typing import Literal

from pydantic import Field

from lego_rl.settings import FolderPath, Settings


class SandboxSettings(Settings):
    """What every sandbox of a run is given; a task's own memory and disk limits come first."""

    environment: Literal["bubblewrap"] = "bubblewrap"
    """How sandboxes are isolated."""
    rootfs: FolderPath | None = None
    """Folder of an unpacked image to use as the root file system; the host's own programs, read-only, if unset."""
    state: FolderPath | None = None
    """Folder for prepared work trees and running sandboxes; the user's cache folder if unset."""
    processes: int | None = Field(default=None, ge=16)
    """Most processes and threads of one sandbox."""
    disk_mb: int | None = Field(default=None, ge=1)
    """Most that a trial may change in its work tree, in MiB, for tasks that set no ``storage_mb``."""
    scratch_mb: int | None = Field(default=None, ge=1)
    """Size of each temporary file system, in MiB."""
    grading_sec: float | None = Field(default=None, gt=0)
    """Caps the seconds of a task's tests, its ``[verifier] timeout_sec``; tests that take longer have not passed."""
