"""The tiny task with a history: a past with a tag, and a future with the fix and the hidden test."""

import json
from pathlib import Path

from sandbox_tools import DOCKERFILE, FIXED, HIDDEN, REPOSITORY, SPEC, TASK_TOML, write_files

from git_tools import commit, git, init

COMMAND = str(SPEC["command"])


def make_task(root: Path, metadata: str = "", command: str = COMMAND) -> Path:
    """A task whose repository has a past with a tag, and a future with the fix and the hidden test."""
    repo = init(root / "environment" / "repo")
    commit(repo, {"calc/core.py": "def add(a, b):\n    raise NotImplementedError\n"}, "first")
    write_files(repo, REPOSITORY)
    commit(repo, {}, "base")
    git(repo, "tag", "-a", "v1", "-m", "one")
    git(repo, "checkout", "-q", "-b", "future")
    commit(repo, {"calc/core.py": FIXED, **HIDDEN}, "the fix")
    git(repo, "tag", "v2")
    git(repo, "checkout", "-q", "--detach", "v1")
    git(repo, "repack", "-q", "-a", "-d")
    write_files(root / "tests" / "files", HIDDEN)
    write_files(root / "solution" / "files", {"calc/core.py": FIXED})
    files = {
        "task.toml": TASK_TOML.replace("[metadata]\n", f"[metadata]\n{metadata}\n"),
        "instruction.md": "add() subtracts.\n",
        "environment/Dockerfile": DOCKERFILE,
        "tests/test.sh": "#!/bin/sh\nexit 1\n",
        "tests/spec.json": json.dumps({**SPEC, "command": command}),
    }
    write_files(root, files)
    return root
