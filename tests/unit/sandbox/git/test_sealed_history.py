"""A sealed repository has what its base commit reaches, by git's own count, and nothing else."""

import gc
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_tools import commit, git, init, objects_in, reachable_from
from lego_rl.errors import SandboxError, TaskError
from lego_rl.sandbox.git.layers import FileSystem, build_layers
from lego_rl.sandbox.git.manifest import HistorySeal
from lego_rl.sandbox.git.sources import Source
from lego_rl.tasks.history import History

WRITTEN = {"HEAD", "config", "index", "refs/heads/main"}


@dataclass(frozen=True)
class Sealed:
    """A task's repository, sealed."""

    root: Path
    seal: HistorySeal

    @property
    def agent(self) -> Path:
        return self.root / "agent" / "app"

    @property
    def grading(self) -> Path:
        return self.root / "grading" / "app"

    @property
    def pristine(self) -> Path:
        return self.root / "pristine"

    def work_tree(self) -> Path:
        """The agent's view: the pristine files with the layer's git directories laid over them."""
        both = self.root / "both"
        shutil.copytree(self.pristine, both, symlinks=True)
        shutil.copytree(self.agent, both, symlinks=True, dirs_exist_ok=True)
        return both


def seal(repo: Path, history: History | None = None, rootfs: Path | None = None) -> Sealed:
    root = repo.parent / f"sealed-of-{repo.name}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(repo, root / "pristine", symlinks=True, ignore=shutil.ignore_patterns(".git"))
    files = FileSystem(root / "pristine", "/app", [Source(repo, "/app")], rootfs)
    return Sealed(root, build_layers(files, history or History(), root / "agent", root / "grading"))


def names_in(git_dir: Path) -> set[str]:
    """Every file in a git directory but its one pack and index, whose names must belong together."""
    names = {str(path.relative_to(git_dir)) for path in git_dir.rglob("*") if not path.is_dir()}
    packs = {name for name in names if name.startswith("objects/pack/pack-")}
    assert len(packs) == 2, names
    assert {Path(name).suffix for name in packs} == {".pack", ".idx"}
    return names - packs


def digest_of(ids: set[str]) -> str:
    return hashlib.sha256(b"".join(bytes.fromhex(name) for name in sorted(ids))).hexdigest()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits; the second is checked out, the third is the future."""
    folder = init(tmp_path / "repo")
    commit(folder, {"a.py": "one\n", "sub/b.py": "b\n"}, "first")
    commit(folder, {"a.py": "two\n"}, "second")
    commit(folder, {"a.py": "the fix\n", "secret": "future\n"}, "third")
    git(folder, "checkout", "-q", "--detach", "HEAD~1")
    return folder


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


@pytest.mark.parametrize("name", ["backup.bin", "x/pack-1.pack", "x/pack-1.idx", "ab/" + "0" * 38])
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


def test_a_shallow_clone(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "work")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repo}", "shallow")
    sealed = seal(tmp_path / "shallow")
    git_dir = sealed.agent / ".git"
    assert git(git_dir, "rev-list", "--count", "HEAD") == "2"
    assert objects_in(git_dir) == reachable_from(tmp_path / "shallow" / ".git", "HEAD")
    assert names_in(git_dir) == WRITTEN | {"shallow"}
    assert git(git_dir, "fsck", "--full") == ""


def test_a_partial_clone_is_refused(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(repo, "checkout", "-q", "work")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
    with pytest.raises(TaskError, match="is damaged or incomplete"):
        seal(tmp_path / "partial")
    assert objects_in(seal(tmp_path / "partial", History(agent="single-commit")).agent / ".git")


@pytest.mark.parametrize("option", ["--object-format=sha256"])
def test_another_object_format_is_refused_by_name(tmp_path: Path, option: str) -> None:
    folder = init(tmp_path / "modern", option)
    commit(folder, {"a": "1"})
    with pytest.raises(TaskError, match="object format sha256"):
        seal(folder)


def test_a_missing_object_is_an_error_not_a_gap(repo: Path) -> None:
    identifier = git(repo, "rev-parse", "HEAD:a.py")
    (repo / ".git" / "objects" / identifier[:2] / identifier[2:]).unlink()
    with pytest.raises(TaskError, match="is damaged or incomplete"):
        seal(repo)


def test_an_object_that_is_not_what_its_id_says(repo: Path) -> None:
    mine, other = (git(repo, "rev-parse", name) for name in ("HEAD:a.py", "work:secret"))
    objects = repo / ".git" / "objects"
    (objects / mine[:2] / mine[2:]).unlink()
    shutil.copy(objects / other[:2] / other[2:], objects / mine[:2] / mine[2:])
    with pytest.raises(TaskError, match="is damaged or incomplete"):
        seal(repo)


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


def test_a_work_tree_that_is_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", "repo", "only")
    git(tmp_path / "only", "symbolic-ref", "HEAD", "refs/heads/work")
    sealed = seal(tmp_path / "only")
    assert list(sealed.pristine.iterdir()) == []
    assert objects_in(sealed.agent) == reachable_from(repo / ".git", "work")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, tuple[Path, set[str]]]:
    """Loose or packed: a repository, and what its HEAD reaches."""
    folder = tmp_path_factory.mktemp("originals")
    made = {pack: original(folder / str(pack), pack=pack) for pack in (False, True)}
    return {pack: (path, reachable_from(path / ".git", "HEAD")) for pack, path in made.items()}


@pytest.fixture
def garbage() -> Iterator[None]:
    """The library leaves files that it finds damaged to the garbage collector, which warns of them."""
    yield
    gc.collect()


@pytest.mark.usefixtures("garbage")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=60)
@given(data=st.data(), pack=st.booleans())
def test_damage_is_an_error_of_the_task_or_does_no_harm(
    tmp_path_factory: pytest.TempPathFactory,
    originals: dict[bool, tuple[Path, set[str]]],
    data: st.DataObject,
    pack: bool,
) -> None:
    """Any bytes of any file of the repository are other ones."""
    folder = tmp_path_factory.mktemp("damaged") / "repo"
    shipped, wanted = originals[pack]
    shutil.copytree(shipped, folder)
    files = sorted(path for path in (folder / ".git").rglob("*") if path.is_file() and path.stat().st_size)
    target = data.draw(st.sampled_from(files))
    content = bytearray(target.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(min_size=1, max_size=8))
    content[start : start + len(new)] = new
    target.chmod(0o644)
    target.write_bytes(content)
    try:
        sealed = seal(folder)
    except TaskError:
        return
    if (sealed.agent / ".git").is_dir():
        assert objects_in(sealed.agent / ".git") <= wanted
    else:
        assert sealed.seal.repositories == ()


def original(folder: Path, *, pack: bool) -> Path:
    """A small repository whose second of three commits is checked out."""
    init(folder)
    for number in range(3):
        commit(folder, {"a.py": f"{number}\n" * 30, f"sub/{number}": f"{number}\n"})
    git(folder, "checkout", "-q", "--detach", "HEAD~1")
    if pack:
        git(folder, "repack", "-q", "-a", "-d")
        git(folder, "pack-refs", "--all")
    shutil.rmtree(folder / ".git" / "hooks")
    return folder
