"""Bundles: the hash depends on what matters and nothing else, installs are atomic, and an altered bundle is refused."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import HarnessError
from lego_rl.harness import bundle_record, bundles
from lego_rl.harness.base import BundleSpec
from lego_rl.sandbox.state import State

SPEC = BundleSpec(name="toy", version="1.0", licence="Apache-2.0", build="b1")

names = st.text("abcXYZ.-_é ", min_size=1, max_size=8).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
contents = st.dictionaries(paths, st.tuples(st.binary(max_size=40), st.booleans()), min_size=1, max_size=6).filter(
    lambda files: not any(other.startswith(f"{path}/") for path in files for other in files)
)
fast = settings(max_examples=40)


def write(root: Path, files: dict[str, tuple[bytes, bool]]) -> None:
    for name, (content, executable) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if executable else 0o644)


def toy(files: Path) -> None:
    write(files, {"bin/run": (b"#!/bin/sh\necho toy\n", True), "lib/data.txt": (b"data", False)})
    (files / "lib" / "link").symlink_to("data.txt")


def fresh(root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return root


@fast
@given(files=contents)
def test_hash_is_a_function_of_paths_modes_and_contents(
    files: dict[str, tuple[bytes, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, two = fresh(tmp_path_factory.getbasetemp() / "one"), fresh(tmp_path_factory.getbasetemp() / "two")
    write(one, files)
    write(two, dict(reversed(files.items())))
    for path in two.rglob("*"):
        os.utime(path, (1, 1))
    assert bundle_record.tree_hash(one) == bundle_record.tree_hash(two)


@fast
@given(files=contents, data=st.data())
def test_hash_notices_every_change(
    files: dict[str, tuple[bytes, bool]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = fresh(tmp_path_factory.getbasetemp() / "tree")
    write(root, files)
    before = bundle_record.tree_hash(root)
    path = root / data.draw(st.sampled_from(sorted(files)))
    change = data.draw(st.sampled_from(["content", "mode", "delete", "rename", "link"]))
    if change == "content":
        path.write_bytes(path.read_bytes() + b"!")
    elif change == "mode":
        path.chmod(path.stat().st_mode ^ 0o100)
    elif change == "delete":
        path.unlink()
    elif change == "rename":
        path.rename(path.with_name(f"{path.name}#"))
    else:
        target = path.read_bytes().hex() or "x"
        path.unlink()
        path.symlink_to(target)
    assert bundle_record.tree_hash(root) != before


def test_installed_bundle_is_read_only_listed_and_loadable(tmp_path: Path) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    assert bundles.load(tmp_path, SPEC) == bundle
    assert bundles.installed(tmp_path) == [bundle]
    bundles.verify(bundle)
    assert bundle.hash == bundle_record.tree_hash(bundle.path)
    assert bundle.size_bytes == len(b"#!/bin/sh\necho toy\n") + len(b"data") + len("data.txt")
    for path in (bundle.path, *bundle.path.rglob("*")):
        assert path.is_symlink() or path.stat().st_mode & 0o222 == 0
    assert os.access(bundle.path / "bin" / "run", os.X_OK)


def test_install_is_idempotent(tmp_path: Path) -> None:
    first = bundles.install(tmp_path, SPEC, toy)

    def never(_: Path) -> None:
        raise AssertionError("an intact bundle was built again")

    assert bundles.install(tmp_path, SPEC, never) == first


@pytest.mark.parametrize("change", ["content", "mode", "extra", "delete", "same-size"])
def test_altered_bundle_is_refused_and_installed_anew(tmp_path: Path, change: str) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    data = bundle.path / "lib" / "data.txt"
    data.parent.chmod(0o755)
    data.chmod(0o644 if change != "mode" else 0o555)
    if change == "content":
        data.write_text("other data")
    elif change == "same-size":
        data.write_text("DATA")
        data.chmod(0o444)
    elif change == "extra":
        (data.parent / "extra").touch()
    elif change == "delete":
        data.unlink()
    with pytest.raises(HarnessError, match=r"altered.*lego-rl harness install toy"):
        bundles.load(tmp_path, SPEC)
    with pytest.raises(HarnessError, match="altered"):
        bundles.verify(bundle)
    assert bundles.install(tmp_path, SPEC, toy) == bundle
    assert bundles.load(tmp_path, SPEC).hash == bundle.hash


def test_touched_but_equal_bundle_is_accepted_again_without_a_build(tmp_path: Path) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    os.utime(bundle.path / "bin" / "run", (1, 1))
    with pytest.raises(HarnessError, match="bin/run"):
        bundles.load(tmp_path, SPEC)
    bundles.verify(bundle)

    def never(_: Path) -> None:
        raise AssertionError("equal content was built again")

    assert bundles.install(tmp_path, SPEC, never) == bundle
    assert bundles.load(tmp_path, SPEC) == bundle


def test_missing_bundle_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="lego-rl harness install toy"):
        bundles.load(tmp_path, SPEC)
    assert bundles.installed(tmp_path / "nowhere") == []


def test_bundle_built_from_something_else_is_another_one_beside_it(tmp_path: Path) -> None:
    older = bundles.install(tmp_path, SPEC, toy)
    newer = BundleSpec(SPEC.name, SPEC.version, SPEC.licence, build="b2")
    with pytest.raises(HarnessError, match=r"toy 1\.0 is not installed"):
        bundles.load(tmp_path, newer)

    def other(files: Path) -> None:
        write(files, {"bin/run": (b"new", True)})

    assert (bundles.install(tmp_path, newer, other).path / "bin" / "run").read_bytes() == b"new"
    bundles.verify(older)
    assert bundles.load(tmp_path, SPEC) == older, "a sandbox may have it mounted"


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fails(files: Path) -> None:
        toy(files)
        raise HarnessError("the download broke off", "try again")

    with pytest.raises(HarnessError, match="broke off"):
        bundles.install(tmp_path, SPEC, fails)
    assert bundles.installed(tmp_path) == []
    assert [path.name for path in (tmp_path / "toy").iterdir()] == [".lock"]


def test_empty_build_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="empty"):
        bundles.install(tmp_path, SPEC, lambda _: None)


def test_killed_install_leaves_no_bundle_and_is_swept(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from lego_rl.harness import bundles\n"
        "from lego_rl.harness.base import BundleSpec\n"
        "def build(files):\n"
        "    (files / 'half').write_text('half'); files.chmod(0o555); os.kill(os.getpid(), signal.SIGKILL)\n"
        "bundles.install(Path(sys.argv[1]), BundleSpec('toy', '1.0', 'Apache-2.0', 'b1'), build)\n"
    )
    result = subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    assert result.returncode == -9
    assert any((tmp_path / "toy").glob(".staging-*"))
    with pytest.raises(HarnessError, match="not installed"):
        bundles.load(tmp_path, SPEC)
    assert bundles.installed(tmp_path) == []
    bundles.install(tmp_path, SPEC, toy)
    assert not any((tmp_path / "toy").glob(".staging-*"))


def test_concurrent_installs_build_once(tmp_path: Path) -> None:
    builds: list[Path] = []
    results: list[str] = []
    start = threading.Barrier(4)

    def build(files: Path) -> None:
        builds.append(files)
        toy(files)

    def run() -> None:
        start.wait()
        results.append(bundles.install(tmp_path, SPEC, build).hash)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert len(results) == 4
    assert len(set(results)) == 1


def test_unwritable_root_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="cannot install toy") as raised:
        bundles.install(tmp_path / "file", SPEC, toy)
    assert raised.value.fix == "name a folder that you may write"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EROFS, "that you may write"),
        (errno.ENOENT, "what the message names"),
        (errno.EIO, "what the message names"),
    ],
)
def test_what_to_do_fits_what_went_wrong(tmp_path: Path, number: int, said: str) -> None:
    def fails(_: Path) -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    with pytest.raises(HarnessError, match="/some/file") as raised:
        bundles.install(tmp_path, SPEC, fails)
    assert said in raised.value.fix


def test_a_bundle_without_its_files_is_a_clear_error(tmp_path: Path) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    bundle.path.rename(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="its files are missing"):
        bundles.load(tmp_path, SPEC)
    with pytest.raises(HarnessError, match="altered"):
        bundles.verify(bundle)
    assert bundles.install(tmp_path, SPEC, toy) == bundle


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: '{"format": 99}',
        lambda text: "[" * 100_000,
        lambda text: json.dumps(json.loads(text) | {"version": {"x": 1}}),
        lambda text: json.dumps(json.loads(text) | {"licence": None}),
        lambda text: json.dumps(json.loads(text) | {"files": {"bin/run": [0o555, "1", 2, "x"]}}),
        lambda text: json.dumps(json.loads(text) | {"files": {"bin/run": [0o555, 1, 2]}}),
        lambda text: json.dumps(json.loads(text) | {"files": {"bin/run": 7}}),
    ],
    ids=["format", "depth", "version", "licence", "size", "entry", "number"],
)
def test_damaged_record_is_a_clear_error(tmp_path: Path, damage: Callable[[str], str]) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    record = bundle.path.parent / "bundle.json"
    record.write_text(damage(record.read_text()))
    other = bundles.install(tmp_path, replace(SPEC, name="zither"), toy)
    damaged, *rest = bundles.installed(tmp_path)
    assert "not a bundle record" in str(damaged)
    assert rest == [other]
    with pytest.raises(HarnessError, match="not a bundle record"):
        bundles.load(tmp_path, SPEC)
    assert bundles.install(tmp_path, SPEC, toy) == bundle


@pytest.mark.parametrize("key", ["name", "version", "hash"])
def test_a_record_that_says_it_is_another_bundle_is_refused(tmp_path: Path, key: str) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    record = bundle.path.parent / "bundle.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {key: "another"}))
    with pytest.raises(HarnessError, match=r"altered: bundle\.json"):
        bundles.verify(bundles.load(tmp_path, SPEC))
    assert bundles.install(tmp_path, SPEC, toy) == bundle


def test_a_record_that_was_made_to_fit_altered_files_has_another_hash(tmp_path: Path) -> None:
    bundle = bundles.install(tmp_path, SPEC, toy)
    data = bundle.path / "lib" / "data.txt"
    data.chmod(0o644)
    data.write_text("DATA")
    data.chmod(0o444)
    info = data.stat()
    record = bundle.path.parent / "bundle.json"
    content = json.loads(record.read_text())
    content["files"]["lib/data.txt"] = [0o444, info.st_size, info.st_mtime_ns, bundle_record.file_hash(data)]
    record.write_text(json.dumps(content))
    with pytest.raises(HarnessError, match=r"altered: bundle\.json"):
        bundles.verify(bundles.load(tmp_path, SPEC))


def test_default_root_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert bundles.default_root() == tmp_path / "lego-rl" / "bundles"
    assert State.default().root == tmp_path / "lego-rl" / "sandbox"
    monkeypatch.setenv("HOME", str(tmp_path))
    for unusable in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert bundles.default_root() == tmp_path / ".cache" / "lego-rl" / "bundles"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert bundles.default_root() == tmp_path / ".cache" / "lego-rl" / "bundles"
