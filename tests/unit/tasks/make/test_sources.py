"""Sources are read as data: folders, git checkouts, source distributions; what would lead out of them is refused."""

import io
import tarfile
from pathlib import Path

import pytest
from small_package import FIRST, SECOND, write_checkout, write_folder, write_sdist

from lego_rl.errors import TaskError
from lego_rl.tasks.make import tree as trees
from lego_rl.tasks.make.source import open_source
from lego_rl.tasks.make.tree import is_code, is_test


def contents(files: dict[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def test_a_folder_is_a_source_without_history(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "small", FIRST)
    (folder / "small" / "__pycache__").mkdir()
    (folder / "small" / "__pycache__" / "core.pyc").write_bytes(b"code")
    (folder / "link.py").symlink_to("/etc/passwd")

    source = open_source([folder])

    assert source.name == "small"
    assert source.newest().files == contents(FIRST)
    assert list(source.steps()) == []


def test_a_checkout_has_its_commits_as_steps_and_no_uncommitted_change(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path / "small", FIRST, SECOND)
    (checkout / "small" / "core.py").write_text("not committed")

    source = open_source([checkout])
    (step,) = source.steps()

    assert source.newest().files == contents(SECOND)
    assert (step.before.files, step.after.files) == (contents(FIRST), contents(SECOND))
    assert step.label == source.label
    assert len(step.since) == 12


def test_a_commit_that_touches_no_test_is_no_step(tmp_path: Path) -> None:
    words = {**FIRST, "small/core.py": FIRST["small/core.py"].replace("Small", "Little")}
    assert list(open_source([write_checkout(tmp_path / "small", FIRST, words)]).steps()) == []


def test_hooks_and_settings_of_a_checkout_are_never_run(tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path / "small", FIRST)
    mark = tmp_path / "ran"
    with (checkout / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {mark}"\n[filter "f"]\n\tsmudge = "touch {mark}"\n')
    (checkout / ".git" / "info").mkdir(exist_ok=True)
    (checkout / ".git" / "info" / "attributes").write_text("* filter=f\n")

    open_source([checkout]).newest()

    assert not mark.exists()


def test_releases_are_ordered_by_version(tmp_path: Path) -> None:
    later = write_sdist(tmp_path, "small", "1.10", SECOND)
    earlier = write_sdist(tmp_path, "small", "1.9", FIRST)

    source = open_source([later, earlier])
    (step,) = source.steps()

    assert (source.name, source.label, step.since, step.label) == ("small", "1.10", "1.9", "1.10")
    assert step.after.files == contents(SECOND)


def test_one_run_is_of_one_package(tmp_path: Path) -> None:
    archives = [write_sdist(tmp_path, name, "1.0", FIRST) for name in ("small", "large")]
    with pytest.raises(TaskError, match="distributions of large, small"):
        open_source(archives)


@pytest.mark.parametrize("name", ["small-1.0/../../out.py", "small-1.0/a/../../../out.py"])
def test_a_path_that_leads_out_of_an_archive_is_refused(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "small-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    with pytest.raises(TaskError, match="leads out of it"):
        open_source([archive]).newest()


def test_links_of_an_archive_are_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "small-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for kind, name in ((tarfile.SYMTYPE, "a.py"), (tarfile.LNKTYPE, "b.py"), (tarfile.FIFOTYPE, "c.py")):
            member = tarfile.TarInfo(f"small-1.0/{name}")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    assert open_source([archive]).newest().files == {}


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "small-1.0.tar.gz"
    archive.write_bytes(b"no archive")
    with pytest.raises(TaskError, match=r"small-1\.0\.tar\.gz cannot be unpacked"):
        open_source([archive]).newest()
    with pytest.raises(TaskError, match="is not called like a source distribution"):
        open_source([write_folder(tmp_path / "f", {"a.zip": ""}) / "a.zip"])
    with pytest.raises(TaskError, match="there is no"):
        open_source([tmp_path / "nowhere"])


def test_a_tree_that_every_task_would_have_to_carry_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MAX_FILES", 3)
    with pytest.raises(TaskError, match="more than 3 files"):
        open_source([write_folder(tmp_path / "small", FIRST)]).newest()


@pytest.mark.parametrize(
    ("path", "test", "code"),
    [
        ("small/core.py", False, True),
        ("src/small/core.py", False, True),
        ("tests/test_core.py", True, False),
        ("tests/data/input.txt", True, False),
        ("small/tests/helper.py", True, False),
        ("test_all.py", True, False),
        ("conftest.py", True, False),
        ("setup.py", False, False),
        ("docs/conf.py", False, False),
        ("README.md", False, False),
        ("small/testing_tools.py", False, True),
    ],
)
def test_tests_and_code_are_told_apart(path: str, test: bool, code: bool) -> None:
    assert (is_test(path), is_code(path)) == (test, code)
