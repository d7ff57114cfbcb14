"""A sealed repository has what its base commit reaches, by git's own count, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sealing import WRITTEN, digest_of, names_in, seal

from git_tools import git, init, objects_in, reachable_from
from lego_rl.errors import TaskError
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.tasks.history import History


def everything(folder: Path) -> None:
    """Every place in which a repository can keep something that its HEAD does not reach."""
    git(folder, "tag", "v9", "work")
    git(folder, "tag", "-a", "v8", "-m", "annotated", "work")
    git(folder, "branch", "future", "work")
    git(folder, "update-ref", "refs/remotes/origin/main", "work")
    git(folder, "notes", "add", "-m", "a note", "HEAD")
    (folder / "a.py").write_text("stashed\n")
    git(folder, "stash", "-q")
    git(folder, "replace", "HEAD", "work")
    git(folder, "update-ref", "ORIG_HEAD", "work")
    git(folder, "hash-object", "-w", "--stdin", stdin="dangling\n")
    git(folder, "worktree", "add", "-q", "--detach", str(folder.parent / "elsewhere"), "work")
    for name, text in {"info/grafts": "", "hooks/post-checkout": "#!/bin/sh\nexit 0\n", "FETCH_HEAD": "x"}.items():
        (folder / ".git" / name).parent.mkdir(exist_ok=True)
        (folder / ".git" / name).write_text(text)
    git(folder, "config", "core.fsmonitor", "false")
    git(folder, "config", "remote.origin.url", "https://example.com/x")


def loose(folder: Path) -> None:
    """Leave all objects as they are."""


def packed(folder: Path) -> None:
    git(folder, "repack", "-q", "-a", "-d")
    git(folder, "pack-refs", "--all")


def several_packs(folder: Path) -> None:
    git(folder, "repack", "-q", "-d")
    git(folder, "hash-object", "-w", "--stdin", stdin="more\n")
    git(folder, "repack", "-q", "-A", "-d", "--write-bitmap-index")
    git(folder, "commit-graph", "write", "--reachable")
    git(folder, "multi-pack-index", "write")


@pytest.mark.parametrize("layout", [loose, packed, several_packs])
def test_the_future_is_gone(repo: Path, layout: Callable[[Path], None]) -> None:
    everything(repo)
    layout(repo)
    git(repo, "replace", "-d", "HEAD")  # rev-list below would follow it
    wanted = reachable_from(repo / ".git", "HEAD")
    assert objects_in(repo / ".git") > wanted
    sealed = seal(repo)
    git_dir = sealed.agent / ".git"
    assert objects_in(git_dir) == wanted
    assert names_in(git_dir) == WRITTEN
    assert [(one.git_dir, one.objects, one.digest) for one in sealed.seal.repositories] == [
        ("/app/.git", len(wanted), digest_of(wanted))
    ]
    assert git(git_dir, "fsck", "--full", "--strict", "--unreachable") == ""
    assert git(git_dir, "rev-list", "--all", "--count") == "2"


def test_a_replaced_commit_is_sealed_as_it_is(repo: Path) -> None:
    wanted = reachable_from(repo / ".git", "HEAD")
    git(repo, "replace", "HEAD", "work")
    assert objects_in(seal(repo).agent / ".git") == wanted


def test_the_agent_can_use_its_history(repo: Path) -> None:
    before = git(repo, "log", "--format=%H %an %s")
    tree = seal(repo).work_tree()
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "diff-index", "HEAD") == "", "also for commands that do not refresh the index"
    assert git(tree, "log", "--format=%H %an %s") == before
    assert git(tree, "blame", "-s", "a.py").endswith("two")
    (tree / "a.py").write_text("edit\n")
    assert "+edit" in git(tree, "diff")
    (tree / "sub" / "b.py").write_text("c\n")
    assert "+c" in git(tree, "diff", "--", "sub/b.py"), "same size"
    git(tree, "commit", "-q", "-a", "-m", "mine")
    assert git(tree, "rev-list", "--count", "HEAD") == "3"
    assert git(tree, "config", "user.name") == "agent"


def test_shipped_edits_are_shown_as_edits(repo: Path) -> None:
    (repo / "a.py").write_text("twO\n")
    (repo / "new").write_text("n\n")
    git(repo, "add", "new")
    assert git(seal(repo).work_tree(), "status", "--porcelain").splitlines() == [" M a.py", "?? new"]


def test_the_task_names_the_base_commit(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD~1")
    git_dir = seal(repo, History(base_commit=first)).agent / ".git"
    assert objects_in(git_dir) == reachable_from(repo / ".git", first)
    assert git(git_dir, "rev-parse", "HEAD") == first


@pytest.mark.parametrize("name", ["0" * 40, "tree"])
def test_a_base_commit_that_is_none(repo: Path, name: str) -> None:
    base = git(repo, "rev-parse", "HEAD^{tree}") if name == "tree" else name
    with pytest.raises(TaskError, match="is damaged or incomplete") as caught:
        seal(repo, History(base_commit=base))
    assert base in caught.value.problem


def test_a_base_commit_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(TaskError, match="no git repository at /app"):
        seal(tmp_path / "plain", History(base_commit="0" * 40))


def test_a_single_commit(repo: Path) -> None:
    sealed = seal(repo, History(agent="single-commit"))
    git_dir = sealed.agent / ".git"
    assert git(git_dir, "rev-list", "--all", "--count") == "1"
    assert git(git_dir, "rev-parse", "HEAD^{tree}") == git(repo, "rev-parse", "HEAD^{tree}")
    assert objects_in(git_dir) == reachable_from(git_dir, "HEAD")
    assert git(sealed.work_tree(), "status", "--porcelain") == ""


def test_a_single_commit_of_a_work_tree_without_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a b.py").write_text("a\n")
    (folder / "run").write_text("r\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("nowhere")
    sealed = seal(folder, History(agent="single-commit"))
    tree = sealed.work_tree()
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "ls-files").splitlines() == ["link", "run", "sub/a b.py"]
    assert git(tree, "rev-list", "--all", "--count") == "1"
    assert objects_in(tree / ".git") == reachable_from(tree / ".git", "HEAD")
    assert sealed.seal.repositories == seal(folder, History(agent="single-commit")).seal.repositories


def test_no_history(repo: Path) -> None:
    sealed = seal(repo, History(agent="none"))
    assert sealed.seal == HistorySeal()
    assert not sealed.agent.exists()


def test_nothing_is_executed(repo: Path, tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    for key in ("core.fsmonitor", "core.sshCommand", "filter.x.smudge", "filter.x.clean", "alias.log"):
        git(repo, "config", key, f"touch {proof}")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=x\n")
    proof.unlink(missing_ok=True)  # git ran its own configuration while it was written
    tree = seal(repo).work_tree()
    git(tree, "status")
    assert not proof.exists()


def test_tags_of_the_past_for_grading(repo: Path) -> None:
    git(repo, "tag", "v1", "HEAD~1")
    git(repo, "tag", "-a", "v1.1", "-m", "annotated", "HEAD")
    git(repo, "tag", "-a", "of-a-tag", "-m", "twice", "v1.1")
    git(repo, "tag", "v2", "work")
    git(repo, "tag", "of-a-tree", "HEAD^{tree}")
    git(repo, "pack-refs", "--all")
    git(repo, "tag", "loose", "HEAD")
    sealed = seal(repo, History(grading="tags"))
    assert git(sealed.agent / ".git", "tag") == ""
    git_dir = sealed.grading / ".git"
    assert git(git_dir, "tag").split() == ["loose", "of-a-tag", "v1", "v1.1"]
    assert git(git_dir, "describe", "--exact-match", "--match", "v*") == "v1.1"
    assert git(git_dir, "rev-parse", "v1.1^{commit}") == git(repo, "rev-parse", "HEAD")
    tags = {git(repo, "rev-parse", name) for name in ("v1.1", "of-a-tag")}
    assert objects_in(git_dir) == reachable_from(repo / ".git", "HEAD") | tags
    assert git(git_dir, "fsck", "--full", "--strict") == ""


def test_full_history_for_grading(repo: Path) -> None:
    everything(repo)
    sealed = seal(repo, History(grading="full"))
    shipped = {path.relative_to(repo) for path in (repo / ".git").rglob("*")}
    assert {path.relative_to(sealed.grading) for path in (sealed.grading / ".git").rglob("*")} == shipped
    assert names_in(sealed.agent / ".git") == WRITTEN


@settings(max_examples=15)
@given(
    edges=st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=1, max_size=9),
    base=st.integers(0, 8),
    pack=st.booleans(),
)
def test_any_history(tmp_path_factory: pytest.TempPathFactory, edges: list[list[int]], base: int, pack: bool) -> None:
    """Commits with any parents, merges and several roots among them; any of them as the base."""
    folder = init(tmp_path_factory.mktemp("any") / "repo")
    made: list[str] = []
    for number, parents in enumerate(edges):
        blob = git(folder, "hash-object", "-w", "--stdin", stdin=f"{number // 2}\n" * 50)
        tree = git(folder, "mktree", stdin=f"100644 blob {blob}\tfile\n100755 blob {blob}\tother{number}\n")
        named = {made[parent % len(made)] for parent in parents} if made else set()
        made.append(git(folder, "commit-tree", tree, "-m", str(number), *(f"-p{name}" for name in sorted(named))))
    git(folder, "update-ref", "--no-deref", "HEAD", made[base % len(made)])
    for number, name in enumerate(made):
        git(folder, "update-ref", f"refs/heads/b{number}", name)
    if pack:
        git(folder, "repack", "-q", "-a", "-d", "-f")
    git_dir = seal(folder).agent / ".git"
    assert objects_in(git_dir) == reachable_from(folder / ".git", "HEAD")
    assert git(git_dir, "rev-list", "HEAD") == git(folder, "rev-list", "HEAD")
