"""The git program, as the self-check uses it to make repositories to attack."""

import os
import shutil
import subprocess
from pathlib import Path

from lego_rl.errors import SandboxError


class Git:
    """The git program in a folder, without the user's configuration.

    Args:
        folder: Where it runs.

    Raises:
        SandboxError: git is not installed, or refuses.
    """

    def __init__(self, folder: Path) -> None:
        found = shutil.which("git")
        if found is None:
            raise SandboxError("the self-check makes a repository to attack, and git is not installed", "install git")
        self._program = found
        self._folder = folder
        who = {f"GIT_{role}_{part}": f"somebody{at}" for role in ("AUTHOR", "COMMITTER")
               for part, at in (("NAME", ""), ("EMAIL", "@localhost"))}  # fmt: skip
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            **who,
        }

    def __call__(self, *arguments: str) -> str:
        """Run it; what it printed."""
        done = subprocess.run(
            [self._program, *arguments],
            cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SandboxError(f"git {arguments[0]} failed: {done.stderr.strip()}", "install another version of git")
        return done.stdout.strip()
