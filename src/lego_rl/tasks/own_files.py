"""That the parts of a task directory are its own: none is a link to what lies elsewhere on this machine.

Invariant: what is read of a task, shown to an agent or graded with lies in its directory, wherever that lies. Links
inside of a work tree are no part of it: they are copied as links, and lead to what the sandbox has there.
"""

import os
from pathlib import Path

from lego_rl.errors import TaskError

PARTS = (
    "task.toml",
    "instruction.md",
    "environment",
    "environment/Dockerfile",
    "environment/.dockerignore",
    "environment/repo",
    "tests",
    "tests/spec.json",
    "tests/test.sh",
    "tests/test.patch",
    "tests/files",
    "solution",
    "solution/gold.patch",
    "solution/files",
)
"""What is read by its name."""


def check_own(task: Path) -> None:
    """See that no part of a task directory is a link that leads out of it.

    Raises:
        TaskError: One is.
    """
    root = os.path.realpath(task)
    for name in PARTS:
        if os.path.commonpath((root, os.path.realpath(task / name))) != root:
            raise TaskError(f"{task / name} leads out of the task", "put the file or folder there instead of a link")
