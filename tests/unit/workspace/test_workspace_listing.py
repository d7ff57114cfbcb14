"""What of a workspace an agent is handed: with git and without, and never what holds secrets."""

import os
import subprocess
from pathlib import Path

import pytest
from dulwich.repo import Repo

from lego_rl.errors import ConfigError
from lego_rl.workspace.listing import Reason, list_workspace
from lego_rl.workspace.secret_files import is_secret
from lego_rl.workspace.stage import differences, stage


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    write(root, "tracked.py", "deleted.py", ".env", "config/prod.pem", ".env.example", "sub/x.py")
    (root / ".gitignore").write_text("node_modules/\n*.log\nsub/local.txt\n")
    git(tmp_path, "init", "-q", "w")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    write(root, "new.py", "node_modules/a/b.js", "out.log", "sub/local.txt")
    (root / "deleted.py").unlink()
    (root / "link").symlink_to("tracked.py")
    return root


def test_what_git_tracks_or_would_add_is_handed_over(repository: Path) -> None:
    listing = list_workspace(repository)
    assert listing.files == (".env.example", ".gitignore", "link", "new.py", "sub/x.py", "tracked.py")
    assert listing.left_out == {
        ".env": Reason.SECRET,
        "config/prod.pem": Reason.SECRET,
        "node_modules/": Reason.IGNORED,
        "out.log": Reason.IGNORED,
        "sub/local.txt": Reason.IGNORED,
    }
    assert list_workspace(repository / "sub").files == ("x.py",)


def test_what_is_named_is_handed_over(repository: Path) -> None:
    listing = list_workspace(repository, ["node_modules", ".env"])
    assert {"node_modules/a/b.js", ".env"} <= set(listing.files)
    assert "config/prod.pem" in listing.left_out
    assert ".env" not in listing.left_out
    for wrong in ("nowhere", "../w2", "/etc/passwd"):
        with pytest.raises(ConfigError, match="there is no"):
            list_workspace(repository, [wrong])


def test_a_repository_inside_is_listed_as_its_own(repository: Path) -> None:
    write(repository, "inner/a.py", "inner/b.log", "inner/.env")
    git(repository, "init", "-q", "inner")
    (repository / "inner" / ".gitignore").write_text("*.log\n")
    listing = list_workspace(repository)
    assert "inner/a.py" in listing.files
    assert listing.left_out["inner/b.log"] is Reason.IGNORED
    assert listing.left_out["inner/.env"] is Reason.SECRET
    assert not any(".git/" in path for path in listing.files)


def test_nothing_that_a_repository_configures_is_run(repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    script.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(script))
    list_workspace(repository)
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_git_is_handed_over_but_for_what_tools_make(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "node_modules/x.js", "p/__pycache__/a.pyc", "p/b.py", ".env.local", ".svn/x", "id_rsa")
    os.mkfifo(tmp_path / "pipe")
    listing = list_workspace(tmp_path)
    assert listing.files == ("a.py", "p/b.py")
    assert listing.left_out == {
        ".env.local": Reason.SECRET,
        ".svn/": Reason.REPOSITORY,
        "id_rsa": Reason.SECRET,
        "node_modules": Reason.MADE,
        "p/__pycache__": Reason.MADE,
        "pipe": Reason.SPECIAL,
    }


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True), ("a/.ENV", True), ("a/.env.production", True), (".env.example", False), ("env.py", False),
        ("server.key", True), ("keys.py", False), (".ssh/config", True), ("id_ed25519.pub", False), (".npmrc", True),
        ("package.json", False), ("terraform.tfstate.backup", True), ("secrets.yaml", True), ("credentials.json", True),
    ],
)  # fmt: skip
def test_secrets_are_told_by_their_names(path: str, secret: bool) -> None:
    assert is_secret(path) is secret


def test_the_copy_is_all_there_is_and_says_what_changed(repository: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (repository / "sub" / "x.py").chmod(0o755)
    staged = stage(repository, list_workspace(repository), copy)
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert {name for name in files if not name.startswith(".git/")} == set(staged.entries)
    with Repo(str(copy)) as made:
        assert len(list(made.get_walker())) == 1
    assert list(differences(repository, list_workspace(repository), staged)) == []
    (repository / "tracked.py").write_text("mine")
    write(repository, "more.py")
    (repository / "new.py").unlink()
    (repository / "sub" / "x.py").chmod(0o644)
    assert list(differences(repository, list_workspace(repository), staged)) == [
        "more.py", "new.py", "sub/x.py", "tracked.py",
    ]  # fmt: skip


def test_an_empty_workspace_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (tmp_path / "w").mkdir()
    with pytest.raises(ConfigError, match="holds no file"):
        stage(tmp_path / "w", list_workspace(tmp_path / "w"), copy)
