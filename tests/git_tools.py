"""Real git repositories for tests, made by the git program with nothing of the machine's configuration."""

import os
import subprocess
from pathlib import Path

DATE = "2024-01-02T03:04:05+0000"


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run git in a folder; its standard output without the last line end."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "someone",
        "GIT_AUTHOR_EMAIL": "someone@localhost",
        "GIT_COMMITTER_NAME": "someone",
        "GIT_COMMITTER_EMAIL": "someone@localhost",
        "GIT_AUTHOR_DATE": DATE,
        "GIT_COMMITTER_DATE": DATE,
        "GIT_ALLOW_PROTOCOL": "file",
    }
    argv = ["git", "-c", "safe.directory=*", *arguments]
    done = subprocess.run(argv, cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout.removesuffix("\n")


def init(folder: Path, *options: str) -> Path:
    """A new repository."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "work", *options)
    return folder


def commit(folder: Path, files: dict[str, str], message: str = "change") -> str:
    """Write files, commit everything in the folder, and return the commit's id."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def objects_in(git_dir: Path) -> set[str]:
    """Every object that a git directory has, reachable or not."""
    told = git(git_dir, "--git-dir", str(git_dir), "cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
    return set(told.split())


def reachable_from(git_dir: Path, *commits: str) -> set[str]:
    """Every object that commits reach, by git's own count."""
    told = git(git_dir, "--git-dir", str(git_dir), "rev-list", "--objects", "--no-object-names", *commits)
    return set(told.split())
