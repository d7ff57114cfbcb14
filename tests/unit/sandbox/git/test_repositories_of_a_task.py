"""Every repository of a task is found and sealed, wherever it is and whatever leads to it; nothing leads out."""

import os
import shutil
from pathlib import Path

import pytest
from sealing import WRITTEN, names_in, seal

from git_tools import commit, git, init, objects_in, reachable_from
from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.tasks.history import History


def test_a_submodule(repo: Path, tmp_path: Path) -> None:
    library = init(tmp_path / "library")
    first = commit(library, {"lib.c": "1\n"})
    commit(library, {"lib.c": "2\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "vendor/lib")
    git(repo / "vendor" / "lib", "checkout", "-q", "--detach", first)
    commit(repo, {}, "with submodule")
    assert (repo / "vendor" / "lib" / ".git").is_file()
    sealed = seal(repo)
    inner = sealed.agent / "vendor" / "lib" / ".git"
    assert objects_in(inner) == reachable_from(library / ".git", first)
    assert names_in(inner) == WRITTEN
    assert not (sealed.agent / ".git" / "modules").exists()
    tree = sealed.work_tree()
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree / "vendor" / "lib", "status", "--porcelain") == ""


def test_a_submodule_is_cut_to_what_the_base_commit_names(repo: Path, tmp_path: Path) -> None:
    library = init(tmp_path / "library")
    first = commit(library, {"lib.c": "1\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    base = commit(repo, {}, "with submodule")
    commit(repo / "lib", {"lib.c": "the fix\n"})
    commit(repo, {}, "submodule goes on")
    sealed = seal(repo, History(base_commit=base))
    assert objects_in(sealed.agent / "lib" / ".git") == reachable_from(library / ".git", first)


def test_a_linked_work_tree_gets_a_repository_of_its_own(repo: Path) -> None:
    git(repo, "worktree", "add", "-q", "--detach", "linked", "HEAD~1")
    base = git(repo, "rev-parse", "HEAD~1")
    (repo / "linked" / ".git").write_text("gitdir: /app/.git/worktrees/linked\n")  # as in the image
    sealed = seal(repo)
    assert objects_in(sealed.agent / "linked" / ".git") == reachable_from(repo / ".git", base)
    assert names_in(sealed.agent / ".git") == names_in(sealed.agent / "linked" / ".git") == WRITTEN


def test_a_nested_repository(repo: Path) -> None:
    inner = init(repo / "inner")
    commit(inner, {"x": "1\n"})
    git(inner, "tag", "secret")
    sealed = seal(repo)
    assert objects_in(sealed.agent / "inner" / ".git") == reachable_from(inner / ".git", "HEAD")
    assert {one.git_dir for one in sealed.seal.repositories} == {"/app/.git", "/app/inner/.git"}


def test_a_bare_repository_under_any_name(repo: Path) -> None:
    git(repo, "clone", "-q", "--bare", ".", "data/upstream")
    git(repo / "data" / "upstream", "update-ref", "refs/heads/work", "HEAD")
    git(repo / "data" / "upstream", "symbolic-ref", "HEAD", "refs/heads/work")
    sealed = seal(repo)
    bare = sealed.agent / "data" / "upstream"
    assert objects_in(bare) == reachable_from(repo / ".git", "HEAD")
    assert names_in(bare) == WRITTEN - {"index"}
    assert git(bare, "rev-parse", "--is-bare-repository") == "true"
    assert not (sealed.pristine / "data" / "upstream").exists()


@pytest.mark.parametrize("way", ["link", "gitfile"])
def test_a_git_directory_elsewhere_in_the_work_tree(repo: Path, way: str) -> None:
    wanted = reachable_from(repo / ".git", "HEAD")
    (repo / ".git").rename(repo / "metadata")
    if way == "link":
        (repo / ".git").symlink_to("metadata")
    else:
        (repo / ".git").write_text("gitdir: /app/metadata\n")
    sealed = seal(repo)
    assert objects_in(sealed.agent / ".git") == objects_in(sealed.agent / "metadata") == wanted
    assert {path.name for path in sealed.pristine.iterdir()} == {"a.py", "sub"}


def test_names_in_any_bytes(repo: Path, tmp_path: Path) -> None:
    inner = init(repo / os.fsdecode(b"caf\xe9\n") / "x")
    commit(inner, {os.fsdecode(b"na\xefve"): "1\n"})
    sealed = seal(repo)
    assert objects_in(sealed.agent / inner.relative_to(repo) / ".git") == reachable_from(inner / ".git", "HEAD")
    sealed.seal.write(tmp_path / "seal.json")
    assert HistorySeal.read(tmp_path / "seal.json") == sealed.seal
    (tmp_path / "seal.json").write_text('{"repositories": 1}')
    with pytest.raises(SandboxError, match="is damaged"):
        HistorySeal.read(tmp_path / "seal.json")


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: a\0b", "gitdir: /", "gitdir: .", "gitdir: " + "x/" * 5000])
def test_gitfiles_that_lead_nowhere(repo: Path, text: str) -> None:
    (repo / "inner").mkdir()
    (repo / "inner" / ".git").write_text(text)
    sealed = seal(repo)
    assert [one.git_dir for one in sealed.seal.repositories] == ["/app/.git"]
    assert not (sealed.agent / "inner").exists()


def test_files_that_begin_like_a_pack_by_chance(repo: Path) -> None:
    (repo / "level.pack").write_bytes(b"PACK\x0c\0\0\0and so on")
    assert seal(repo).seal.fixtures == ()


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    folder = init(tmp_path / "empty")
    git(folder, "hash-object", "-w", "--stdin", stdin="secret\n")
    (folder / "a").write_text("a")
    sealed = seal(folder)
    assert git(sealed.work_tree(), "status", "--porcelain") == "?? a"
    assert objects_in(sealed.agent / ".git") == set()


def test_objects_in_an_alternate_of_the_task(repo: Path) -> None:
    wanted = reachable_from(repo / ".git", "HEAD")
    shutil.move(repo / ".git" / "objects", repo / "elsewhere")
    (repo / ".git" / "objects" / "info").mkdir(parents=True)
    (repo / ".git" / "objects" / "info" / "alternates").write_text("# comment\n/app/elsewhere\n../../elsewhere\n")
    with pytest.raises(TaskError, match="holds git objects outside of a repository"):
        seal(repo)
    shutil.move(repo / "elsewhere", repo / ".git" / "store")
    (repo / ".git" / "objects" / "info" / "alternates").write_text("../store\n")
    assert objects_in(seal(repo).agent / ".git") == wanted


@pytest.mark.parametrize("way", ["alternate", "absolute alternate", "gitfile", "link", "linked objects", "linked HEAD"])
def test_no_way_leads_out_of_the_task(repo: Path, tmp_path: Path, way: str) -> None:
    outside = tmp_path / "outside"
    shutil.move(repo / ".git", outside)
    if way == "gitfile":
        (repo / ".git").write_text(f"gitdir: {outside}\n")
    elif way == "link":
        (repo / ".git").symlink_to(outside)
    else:
        shutil.copytree(outside, repo / ".git")
        (repo / ".git" / "objects").rename(repo / ".git" / "gone") if way == "linked objects" else None
        if way == "linked objects":
            (repo / ".git" / "objects").symlink_to(outside / "objects")
            shutil.rmtree(repo / ".git" / "gone")
        elif way == "linked HEAD":
            (repo / ".git" / "HEAD").unlink()
            (repo / ".git" / "HEAD").symlink_to(outside / "HEAD")
        else:
            shutil.rmtree(repo / ".git" / "objects")
            (repo / ".git" / "objects" / "info").mkdir(parents=True)
            target = outside / "objects" if way.startswith("abs") else Path("../../../outside/objects")
            (repo / ".git" / "objects" / "info" / "alternates").write_text(f"{target}\n")
    try:
        sealed = seal(repo)
    except TaskError as error:
        assert "damaged or incomplete" in error.problem
    else:
        assert not any(one.objects for one in sealed.seal.repositories)


def test_fixtures_of_the_commit_stay_where_they_are(repo: Path, tmp_path: Path) -> None:
    other = init(tmp_path / "other")
    commit(other, {"x": "1\n"})
    git(other, "repack", "-q", "-a", "-d")
    git(other, "bundle", "create", "-q", str(repo / "tests.bundle"), "work")
    git(repo, "clone", "-q", "--bare", str(other), "tests/data/bare")
    (pack,) = (other / ".git" / "objects" / "pack").glob("*.pack")
    shutil.copy(pack, repo / "fixture.bin")
    commit(repo, {}, "fixtures")
    for folder in (repo / "tests" / "data" / "bare" / "refs", repo / "tests" / "data" / "bare" / "objects"):
        assert folder.is_dir()
    sealed = seal(repo)
    assert set(sealed.seal.fixtures) == {"/app/tests.bundle", "/app/tests/data/bare", "/app/fixture.bin"}
    assert (sealed.pristine / "tests" / "data" / "bare" / "HEAD").is_file()
    assert not (sealed.agent / "tests").exists()


@pytest.mark.parametrize("name", ["backup.bin", "x/pack-1.pack", "x/pack-1.idx", "ab/" + "0" * 38, "odd/thing"])
def test_objects_that_no_repository_owns_are_refused(repo: Path, name: str) -> None:
    target = repo / name
    target.parent.mkdir(exist_ok=True)
    if name == "backup.bin":
        git(repo, "bundle", "create", "-q", name, "--all")
    elif name.startswith("x"):
        git(repo, "repack", "-q", "-a", "-d")
        (made,) = (repo / ".git" / "objects" / "pack").glob(f"*{target.suffix}")
        shutil.copy(made, target)
    else:
        identifier = git(repo, "rev-parse", "work")
        shutil.copy(repo / ".git" / "objects" / identifier[:2] / identifier[2:], target)
    with pytest.raises(TaskError, match=f"{target} holds git objects"):
        seal(repo)
    git(repo, "add", name)
    with pytest.raises(TaskError, match=f"{target} holds git objects"):
        seal(repo)
    git(repo, "commit", "-q", "-m", "ship it")
    assert seal(repo).seal.fixtures == (f"/app/{name}",)


def test_repositories_of_an_image(repo: Path, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    tool = init(rootfs / "opt" / "tool")
    commit(tool, {"x": "1\n"})
    git(tool, "tag", "secret")
    git(tool, "bundle", "create", "-q", str(rootfs / "opt" / "left.bundle"), "--all")
    (rootfs / "srv" / "gone").mkdir(parents=True)
    (rootfs / "srv" / "gone" / ".git").write_text("gitdir: /nowhere\n")
    sealed = seal(repo, rootfs=rootfs)
    layer = sealed.root / "agent"
    assert objects_in(layer / "opt" / "tool" / ".git") == reachable_from(tool / ".git", "HEAD")
    assert {one.git_dir for one in sealed.seal.repositories} == {"/app/.git", "/opt/tool/.git"}
    for hidden in ("opt/left.bundle", "srv/gone/.git"):
        assert (layer / hidden).is_char_device()
    assert git(tool, "tag") == "secret", "the image itself stays as it is"


def test_a_work_tree_that_is_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", "repo", "only")
    git(tmp_path / "only", "symbolic-ref", "HEAD", "refs/heads/work")
    sealed = seal(tmp_path / "only")
    assert list(sealed.pristine.iterdir()) == []
    assert objects_in(sealed.agent) == reachable_from(repo / ".git", "work")
