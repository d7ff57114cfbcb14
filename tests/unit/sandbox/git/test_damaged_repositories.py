"""A repository that lacks something, or has something else than it says, is an error or does no harm."""

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sealing import WRITTEN, names_in, seal

from git_tools import commit, git, init, objects_in, reachable_from
from lego_rl.errors import TaskError
from lego_rl.tasks.history import History


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
