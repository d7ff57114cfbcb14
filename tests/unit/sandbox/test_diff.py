"""`diff` against the law that it must keep: pristine plus patch is what the overlay showed, less what is dropped."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import SandboxError
from lego_rl.sandbox import comparison
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.verdict import Change, Patch

type Tree = dict[str, bytes | str]
"""Path → content of a file, or target of a link."""

NAMES = st.sampled_from(["a", "b", "c.py", "ä"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HEAD = b"ref: refs/heads/main\n"
CONTENTS = st.one_of(st.binary(max_size=4), st.sampled_from(["a", "../b", "/etc/passwd"]))


def without_conflicts(tree: Tree) -> Tree:
    """Leave out every path that needs a folder where another path is a file or link."""
    return {path: content for path, content in tree.items() if not any(str(p) in tree for p in Path(path).parents)}


TREES = st.dictionaries(PATHS, CONTENTS, max_size=6).map(without_conflicts)


def write(root: Path, tree: Tree) -> None:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def overlay_upper(upper: Path, before: Tree, after: Tree) -> None:
    """Write what an overlay's upper layer holds once `before` was made into `after`."""
    write(upper, {path: content for path, content in after.items() if before.get(path) != content})
    for path in before:
        replaced = any(str(part) in after for part in (Path(path), *Path(path).parents))
        uncovered = any(str(part) in before for part in Path(path).parents)
        if replaced or uncovered or os.path.lexists(upper / path):
            continue
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        white_out(upper / path)


def white_out(path: Path) -> None:
    """Mark a path as deleted in the one of the two ways that this user may use."""
    if os.geteuid() == 0:
        os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
    else:
        path.touch()
        os.setxattr(path, "user.overlay.whiteout", b"y")


def apply(tree: Tree, patch: Patch) -> Tree:
    result = dict(tree)
    for change in patch.changes:
        if change.kind == "deleted":
            del result[change.path]
    for change in patch.changes:
        if change.kind != "deleted":
            assert not change.executable
            result[change.path] = change.content if change.kind == "file" else os.fsdecode(change.content)
    return result


@settings(max_examples=150)
@given(before=TREES, after=TREES)
def test_pristine_plus_patch_is_the_tree(tmp_path_factory: pytest.TempPathFactory, before: Tree, after: Tree) -> None:
    root = tmp_path_factory.mktemp("diff")
    pristine, upper = root / "pristine", root / "upper"
    pristine.mkdir()
    upper.mkdir()
    write(pristine, before)
    overlay_upper(upper, before, after)
    patch = OverlaySnapshot(upper).diff(pristine)
    assert apply(before, patch) == after
    assert not patch.dropped
    assert [change.path for change in patch.changes] == sorted(
        {*before, *after} - {p for p in before if before[p] == after.get(p)}
    )
    shutil.rmtree(root)


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path]:
    upper, pristine = tmp_path / "upper", tmp_path / "pristine"
    upper.mkdir()
    pristine.mkdir()
    return upper, pristine


def test_execute_bit_binary_and_link(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"run.sh": b"#!/bin/sh\n", "same.txt": b"same"})
    write(upper, {"run.sh": b"#!/bin/sh\n", "same.txt": b"same", "blob": bytes(range(256)), "link": "/etc/shadow"})
    (upper / "run.sh").chmod(0o755)
    assert OverlaySnapshot(upper).diff(pristine).changes == (
        Change("blob", "file", bytes(range(256))),
        Change("link", "symlink", b"/etc/shadow"),
        Change("run.sh", "file", b"#!/bin/sh\n", executable=True),
    )


def test_what_is_never_carried_over(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    names = [
        ".git/config",
        "a/.git",
        "a/__pycache__/x.pyc",
        "x.pyc",
        "p.egg-info/entry_points.txt",
        "p-1.dist-info/RECORD",
    ]
    write(upper, dict.fromkeys([*names, "weights.pth", ".pytest_cache/v/lastfailed", "kept.py"], b"x"))
    os.mkfifo(upper / "pipe")
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == ["kept.py", "weights.pth"]
    assert patch.dropped == {
        ".git": "git directory",
        ".pytest_cache": "tool cache",
        "a/.git": "git directory",
        "a/__pycache__": "byte code",
        "p-1.dist-info": "package metadata",
        "p.egg-info": "package metadata",
        "pipe": "special file",
        "x.pyc": "byte code",
    }


def test_what_tools_make_is_not_carried_over_by_what_it_holds(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"env/pyvenv.cfg": b"", "env/bin/python": b"", "fixture/HEAD": HEAD, "fixture/objects/x": b""})
    write(pristine, {"lib/build/lib/x.py": b"source", "fixture/refs/y": b""})
    dropped = {
        "env/bin/pytest": "virtual environment",
        "my/venv/pyvenv.cfg": "virtual environment",
        "mirror/HEAD": "git directory",
        "mirror/objects/pack/p": "git directory",
        "mirror/refs/heads/m": "git directory",
        "fixture/objects/y": "git directory",
        "web/node_modules/jest/run.js": "installed packages",
        "x/site-packages/a.py": "installed packages",
        "build/lib/calc/core.py": "build output",
        "sub/build/temp.linux-x86_64-cpython-312/a.o": "build output",
        "A.Egg-Info/entry_points.txt": "package metadata",
        "b.DIST-INFO/RECORD": "package metadata",
        "calc.egg/x": "package metadata",
        "__editable___calc_finder.py": "package metadata",
    }
    kept = ["HEAD", "build/lib.py", "lib/build/lib/x.py", "objects/x.py", "refs.py", "src/core.so"]
    write(upper, {**dict.fromkeys([*dropped, *kept], b"changed"), "mirror/HEAD": HEAD})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == kept
    for path, reason in dropped.items():
        assert [why for top, why in patch.dropped.items() if path == top or path.startswith(f"{top}/")] == [reason]


def test_a_folder_of_a_package_is_no_build_output(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"calc/__init__.py": b"", "sub/__init__.py": b"", "sub/setup.py": b"", "new/x": b""})
    write(upper, {f"{folder}/build/lib/x.py": b"" for folder in ("calc", "sub", "new")})
    write(upper, {"new/__init__.py": b""})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == ["calc/build/lib/x.py", "new/__init__.py"]
    assert patch.dropped == {"new/build/lib": "build output", "sub/build/lib": "build output"}


@pytest.mark.parametrize("there", [{}, {"store/HEAD": b"12\n", "store/refs/a": b"", "store/objects": b""}])
def test_a_folder_of_a_product_that_git_would_not_take_for_its_own(
    layers: tuple[Path, Path], there: dict[str, bytes]
) -> None:
    upper, pristine = layers
    write(pristine, there)
    new = {"store/HEAD": b"13\n", "store/refs/b": b"x", "store/info": b"x", "box/HEAD": HEAD, "box/refs": b""}
    write(upper, {**new, "box/objects/x": b"", "store/objects": b"x"})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == sorted([*new, "box/objects/x", "store/objects"])
    assert patch.dropped == {}


def test_the_work_tree_itself_as_a_repository(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(upper, {"HEAD": HEAD, "objects/x": b"x", "refs/x": b"x", "core.py": b"x"})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == ["core.py"]
    assert patch.dropped == dict.fromkeys(["HEAD", "objects", "refs"], "git directory")


PRODUCTS = {
    "src/add.o": "src/add.o", "lib/libx.a": "lib/libx.a", "src/add.d": "src/add.d", "obj/add.d": "obj/add.d",
    "src/add.c.o.d": "src/add.c.o.d", "build/CMakeCache.txt": "build", "build/Makefile": "build",
    "tests/CMakeFiles/x": "tests/CMakeFiles", "CMakeCache.txt": "CMakeCache.txt", "build.ninja": "build.ninja",
    "sub/Makefile": "sub/Makefile", "src/.deps/add.Po": "src/.deps", "rust/target/debug/x": "rust/target",
    "java/build/A": "java/build", "java/.gradle/x": "java/.gradle", "java/A.class": "java/A.class",
    "ts/x.tsbuildinfo": "ts/x.tsbuildinfo", "config.status": "config.status", "odd/.fingerprint/x": "odd",
}  # fmt: skip
"""Path → what of it is dropped."""
SOURCES = (
    "src/native.so", "src/new.c", "d/app.d", "etc/conf.d/x", "out/core.py", "sub/config.h", "target/x.py", "cube.obj",
    "new/Makefile", "go/go.mod", "dist/index.js", "lib/x.jar", "kept/build.txt", "src/prog",
)  # fmt: skip


def test_products_of_a_build_are_dropped(layers: tuple[Path, Path]) -> None:
    pristine, upper = layers
    write(pristine, dict.fromkeys(["src/add.c", "sub/Makefile.in", "rust/Cargo.toml", "java/build.gradle"], b""))
    write(upper, dict.fromkeys([*PRODUCTS, *SOURCES], b"made"))
    patch = OverlaySnapshot(upper).diff(pristine)
    assert set(patch.dropped) == set(PRODUCTS.values())
    assert set(patch.dropped.values()) == {"product of a build"}
    assert {change.path for change in patch.changes} == set(SOURCES)


def test_a_product_that_the_task_has_is_a_file_like_any_other(layers: tuple[Path, Path]) -> None:
    pristine, upper = layers
    own = ["src/add.o", "build/CMakeCache.txt", "target/Cargo.toml", "target/x/a"]
    write(pristine, dict.fromkeys(own, b""))
    write(upper, dict.fromkeys(own, b"changed"))
    patch = OverlaySnapshot(upper).diff(pristine)
    assert {change.path for change in patch.changes} == set(own)
    assert not patch.dropped


def test_a_git_directory_that_was_shown_is_dropped_by_its_name(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(upper, {"mirror.git/refs/heads/new": b"x", "mirror.git/objects/00/x": b"x", "mirror.github/x": b"x"})
    patch = OverlaySnapshot(upper, frozenset({"mirror.git", ".git"})).diff(pristine)
    assert [change.path for change in patch.changes] == ["mirror.github/x"]
    assert patch.dropped == {"mirror.git": "git directory"}


def test_what_is_made_of_a_folder_of_the_task_does_not_take_its_files_along(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"src/core.py": b"a - b", "src/config/x": b"x", "data/refs/x": b"x", "data/table.csv": b"1"})
    write(upper, {"src/core.py": b"a + b", "src/pyvenv.cfg": b"home = /usr", "src/bin/activate": b"x"})
    write(upper, {"src/lib/python3.12/site-packages/evil.py": b"x", "src/lib/new.py": b"x"})
    write(upper, {"data/HEAD": HEAD, "data/objects/x": b"x", "data/config": b"x", "data/table.csv": b"2"})
    write(upper, {"src/config/x": b"y", "pyvenv.cfg": b"home = /usr"})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == [
        "data/table.csv", "src/bin/activate", "src/config/x", "src/core.py", "src/lib/new.py",
    ]  # fmt: skip
    assert patch.dropped == {
        "data/HEAD": "git directory",
        "data/config": "git directory",
        "data/objects": "git directory",
        "pyvenv.cfg": "virtual environment",
        "src/lib/python3.12/site-packages": "installed packages",
        "src/pyvenv.cfg": "virtual environment",
    }


def test_size_limits_are_reasons(layers: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    upper, pristine = layers
    monkeypatch.setattr(comparison, "MAX_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(comparison, "FILE_TOO_LARGE", "larger than 1 MiB")
    write(upper, {"a-large": b"x" * (1 << 20), "b-huge": b"x" * ((1 << 20) + 1), "c-small": b"x"})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert patch.dropped == {"b-huge": comparison.FILE_TOO_LARGE}
    assert [change.path for change in patch.changes] == ["a-large", "c-small"]
    monkeypatch.setattr(comparison, "MAX_PATCH_BYTES", 1 << 20)
    patch = OverlaySnapshot(upper).diff(pristine)
    assert patch.dropped["a-large"] == "changes larger than 64 MiB together"
    assert [change.path for change in patch.changes] == ["c-small"]


def test_what_was_generated_does_not_crowd_out_what_was_mended(
    layers: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    upper, pristine = layers
    monkeypatch.setattr(comparison, "MAX_CHANGES", 3)
    write(pristine, {"zz/core.py": b"a - b", "zz/gone.py": b"x"})
    write(upper, {f"data/{number}": b"x" * 100 * number for number in range(1, 9)})
    write(upper, {"zz/core.py": b"a + b", "zz/new.py": b"x", "links/a": "b" * 200})
    white_out(upper / "zz" / "gone.py")
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == ["data/1", "zz/core.py", "zz/gone.py", "zz/new.py"]
    assert set(patch.dropped.values()) == {comparison.TOO_MANY_CHANGES}
    assert {"links/a", "data/2", "data/8"} <= set(patch.dropped)


def test_what_was_deleted_does_not_crowd_out_what_was_mended(
    layers: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    upper, pristine = layers
    monkeypatch.setattr(comparison, "MAX_CHANGES", 2)
    write(pristine, {f"assets/{number}": b"x" for number in range(9)} | {"core.py": b"a - b"})
    write(upper, {"core.py": b"a + b", "new.py": b"x"})
    white_out(upper / "assets")
    patch = OverlaySnapshot(upper).diff(pristine)
    assert [change.path for change in patch.changes] == [
        *(f"assets/{number}" for number in range(9)),
        "core.py",
        "new.py",
    ]
    assert (patch.dropped, patch.too_large) == ({}, False)


def test_a_large_file_in_place_of_a_folder_does_not_leave_what_was_in_it(
    layers: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    upper, pristine = layers
    monkeypatch.setattr(comparison, "MAX_FILE_BYTES", 1 << 20)
    write(pristine, {"package/a.py": b"a"})
    write(upper, {"package": b"x" * ((1 << 20) + 1)})
    assert OverlaySnapshot(upper).diff(pristine) == Patch(
        (Change("package/a.py", "deleted"),), {"package": comparison.FILE_TOO_LARGE}, too_large=True
    )


def test_no_number_of_dropped_paths_hides_why_one_was_dropped(
    layers: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    upper, pristine = layers
    monkeypatch.setattr(comparison, "MAX_DROPPED", 3)
    monkeypatch.setattr(comparison, "MAX_FILE_BYTES", 1 << 20)
    write(upper, {f"a/{number}.pyc": b"" for number in range(8)})
    write(upper, {f"z/{number}": b"x" * ((1 << 20) + 1) for number in range(2)})
    patch = OverlaySnapshot(upper).diff(pristine)
    assert patch.dropped == {f"a/{number}.pyc": "byte code" for number in range(3)}
    assert patch.more_dropped == {"byte code": 5, comparison.FILE_TOO_LARGE: 2}
    assert patch.too_large
    assert not OverlaySnapshot(upper / "a").diff(pristine).too_large


def bytes_read() -> int:
    """What this process has read so far, by the kernel's count (proc(5))."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


def test_what_the_patch_has_no_room_for_is_not_even_read(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    for folder, name in (
        (pristine, "z-same"),
        *((upper, f"sparse-{index:02}") for index in range(60)),
        (upper, "z-same"),
    ):
        with (folder / name).open("wb") as stream:
            stream.truncate(8 << 20)
    before = bytes_read()
    patch = OverlaySnapshot(upper).diff(pristine)
    assert bytes_read() - before < 100 << 20, "sparse files cost a sandbox nothing, and the host the reading"
    assert [change.path for change in patch.changes] == [f"sparse-{index:02}" for index in range(8)]
    assert list(patch.dropped) == [f"sparse-{index:02}" for index in range(8, 60)], "what is as it was is no change"


def test_a_file_in_place_of_a_folder(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"d/x": b"1", "d/e/y": b"2", "f": b"3"})
    write(upper, {"d": b"now a file", "f/inner": b"now in a folder"})
    assert OverlaySnapshot(upper).diff(pristine).changes == (
        Change("d", "file", b"now a file"),
        Change("d/e/y", "deleted"),
        Change("d/x", "deleted"),
        Change("f", "deleted"),
        Change("f/inner", "file", b"now in a folder"),
    )


def test_opaque_folder(layers: tuple[Path, Path]) -> None:
    upper, pristine = layers
    write(pristine, {"d/kept": b"1", "d/gone": b"2", "d/e/gone": b"3", "d/x.pyc": b"4"})
    write(upper, {"d/kept": b"1", "d/new": b"5"})
    os.setxattr(upper / "d", "user.overlay.opaque", b"y")
    patch = OverlaySnapshot(upper).diff(pristine)
    assert patch.changes == (Change("d/e/gone", "deleted"), Change("d/gone", "deleted"), Change("d/new", "file", b"5"))
    assert patch.dropped == {"d/x.pyc": "byte code"}


@pytest.mark.parametrize("mode", [0, 0o444, 0o111])
def test_unreadable_modes_do_not_hide_a_change(layers: tuple[Path, Path], mode: int) -> None:
    upper, pristine = layers
    write(upper, {"d/secret.py": b"x = 1\n"})
    (upper / "d" / "secret.py").chmod(0)
    (upper / "d").chmod(mode)
    assert [change.path for change in OverlaySnapshot(upper).diff(pristine).changes] == ["d/secret.py"]


def test_more_than_can_be_looked_at_in_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for layer in ("upper", "pristine"):
        (tmp_path / layer).mkdir()
    (tmp_path / "upper" / "new").touch()
    snapshot = OverlaySnapshot(tmp_path / "upper")
    assert [change.path for change in snapshot.diff(tmp_path / "pristine").changes] == ["new"]
    monkeypatch.setattr(comparison, "DIFF_SECONDS", 0.0)
    with pytest.raises(SandboxError, match="the diff of a work tree did not end within 0 s"):
        snapshot.diff(tmp_path / "pristine")
