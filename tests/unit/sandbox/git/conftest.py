"""A repository with a past and a future."""

from pathlib import Path

import pytest

from git_tools import commit, git, init


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits; the second is checked out, the third is the future."""
    folder = init(tmp_path / "repo")
    commit(folder, {"a.py": "one\n", "sub/b.py": "b\n"}, "first")
    commit(folder, {"a.py": "two\n"}, "second")
    commit(folder, {"a.py": "the fix\n", "secret": "future\n"}, "third")
    git(folder, "checkout", "-q", "--detach", "HEAD~1")
    return folder
