"""Work trees as a keeper tells of them: the keeper's own program lists and fetches, the host compares."""

import asyncio
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import SandboxError
from lego_rl.sandbox import comparison, inside_files, records
from lego_rl.sandbox.diff import OverlaySnapshot
from lego_rl.sandbox.kubernetes import tree
from lego_rl.sandbox.kubernetes.delta import delta
from lego_rl.sandbox.kubernetes.tree import TreeSnapshot, snapshot, take_out
from lego_rl.sandbox.records import Record, write_tree
from lego_rl.sandbox.verdict import Change, Patch

sys.modules.setdefault("inside_files", inside_files)
from lego_rl.sandbox.kubernetes import keeper  # noqa: E402

NAMES = st.sampled_from(["a", "b", "c.py", "tests"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(PATHS, st.tuples(st.binary(max_size=3), st.booleans()), max_size=6)


class Asked:
    """A request to a keeper in this process."""

    def __init__(self, fields: list[str], content: bytes, folder: Path) -> None:
        self.fields = fields
        (folder / "input").write_bytes(content)
        self.input = (folder / "input").open("rb", buffering=0)
        self.output = bytearray()

    def write(self, data: bytes) -> None:
        self.output += data


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A channel whose requests the keeper's program does in this process."""

    async def operate(_: object, fields: list[str], content: bytes = b"") -> bytes:
        with_input = Asked(fields, content, tmp_path)
        with with_input.input:
            keeper.OPERATIONS[fields[0]](with_input)  # type: ignore[arg-type]
        return bytes(with_input.output)

    monkeypatch.setattr(tree, "operate", operate)
    return object()


def written(folder: Path, files: dict[str, tuple[bytes, bool]]) -> dict[str, tuple[bytes, bool]]:
    """Write the files that can be there together; which those are."""
    folder.mkdir()
    done: dict[str, tuple[bytes, bool]] = {}
    for path, (content, executable) in sorted(files.items()):
        place = folder / path
        if any((folder / part).is_file() for part in map(str, Path(path).parents)) or place.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if executable else 0o644)
        done[path] = (content, executable)
    return done


def files_of(folder: Path) -> dict[str, tuple[bytes, bool]]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), bool(path.stat().st_mode & 0o100)) for path in paths}


@settings(max_examples=60, deadline=None)
@given(before=FILES, after=FILES)
def test_a_patch_makes_the_pristine_tree_into_what_the_agent_left(
    before: dict[str, tuple[bytes, bool]],
    after: dict[str, tuple[bytes, bool]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("trees")
    pristine, left = root / "pristine", root / "left"
    written(pristine, before)
    wanted = written(left, after)
    with pytest.MonkeyPatch.context() as patcher:
        patch = asyncio.run(_snapshot(left, pristine, root, patcher)).diff(pristine)
    assert patch.dropped == {}
    changes = [
        Record(each.path, each.kind, each.content, 0o755 if each.executable else 0o644) for each in patch.changes
    ]
    write_tree(sorted(changes, key=lambda change: change.kind != "deleted"), pristine)
    assert files_of(pristine) == wanted
    assert delta(left, left) == []


async def _snapshot(left: Path, pristine: Path, root: Path, patcher: pytest.MonkeyPatch) -> TreeSnapshot:
    async def operate(_: object, fields: list[str], content: bytes = b"") -> bytes:
        asked = Asked(fields, content, root)
        with asked.input:
            keeper.OPERATIONS[fields[0]](asked)  # type: ignore[arg-type]
        return bytes(asked.output)

    patcher.setattr(tree, "operate", operate)
    return await snapshot(object(), str(left), pristine)  # type: ignore[arg-type]


async def test_what_is_dropped_has_a_reason(channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(comparison, "MAX_PATCH_BYTES", 250)
    pristine, left = tmp_path / "pristine", tmp_path / "left"
    written(pristine, {"kept": (b"x" * 90, False), "folder/inner": (b"", False), "became/folder": (b"", False)})
    written(left, {"kept": (b"x" * 90, False), "huge": (b"h" * 101, False), "folder": (b"now a file", False)})
    for name in ("m1", "m2", "m3"):
        (left / name).write_bytes(b"m" * 100)
    for name in ("__pycache__/a.pyc", ".git/config", "deep/.git/HEAD", "package.egg-info/PKG-INFO"):
        (left / name).parent.mkdir(parents=True, exist_ok=True)
        (left / name).touch()
    (left / "link").symlink_to("/etc/passwd")
    (left / "became").symlink_to("elsewhere")
    monkeypatch.setattr(keeper, "digest_of", lambda path: b"" if path.endswith("m1") else _digest(path))
    patch = (await snapshot(channel, str(left), pristine)).diff(pristine)
    assert [(each.path, each.kind) for each in patch.changes] == [
        ("became", "symlink"), ("became/folder", "deleted"), ("folder", "file"), ("folder/inner", "deleted"),
        ("link", "symlink"), ("m2", "file"), ("m3", "file"),
    ]  # fmt: skip
    assert patch.dropped == {
        "huge": comparison.FILE_TOO_LARGE, "m1": "not readable", "__pycache__": "byte code", ".git": "git directory",
        "deep/.git": "git directory", "package.egg-info": "package metadata",
    }  # fmt: skip


_digest = keeper.digest_of


async def test_a_folder_that_cannot_be_read_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "pristine", {"hidden/a": (b"", False), "b": (b"", False)})
    _answer(monkeypatch, [Record("hidden", "directory", mode=0)])
    found = await snapshot(object(), "/app", tmp_path / "pristine")  # type: ignore[arg-type]
    assert found.diff(tmp_path / "pristine") == Patch((Change("b", "deleted"),), {"hidden": "not readable"})
    with pytest.raises(SandboxError, match="were compared with"):
        found.diff(tmp_path / "elsewhere")


@settings(max_examples=60, deadline=None)
@given(before=FILES, after=FILES, links=st.dictionaries(PATHS, NAMES, max_size=4), room=st.integers(0, 6))
def test_what_a_patch_has_room_for_is_the_same_in_every_environment(
    before: dict[str, tuple[bytes, bool]],
    after: dict[str, tuple[bytes, bool]],
    links: dict[str, str],
    room: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("trees")
    pristine, left = root / "pristine", root / "left"
    for folder, files in ((pristine, before), (left, after)):
        written(folder, files)
        for path, target in links.items():
            place = folder / path
            if (folder == left or len(path) % 2) and place.parent.is_dir() and not os.path.lexists(place):
                place.symlink_to(target)
    with pytest.MonkeyPatch.context() as patcher:
        patcher.setattr(comparison, "MAX_CHANGES", room)
        patcher.setattr(comparison, "MAX_PATCH_BYTES", room * 2)
        listed = asyncio.run(_snapshot(left, pristine, root, patcher)).diff(pristine)
        os.setxattr(left, "user.overlay.opaque", b"y")  # The layer says that all of the pristine tree is gone, too.
        assert OverlaySnapshot(left).diff(pristine) == listed


async def test_links_do_not_crowd_out_what_was_mended(
    channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MAX_CHANGES", 3)
    pristine, left = tmp_path / "pristine", tmp_path / "left"
    written(pristine, {"zz/core.py": (b"a - b", False)})
    written(left, {"zz/core.py": (b"a + b", False), "zz/new.py": (b"", False)})
    for number in range(5):
        (left / f"a{number}").symlink_to("elsewhere")
    patch = (await snapshot(channel, str(left), pristine)).diff(pristine)
    assert [change.path for change in patch.changes] == ["a0", "zz/core.py", "zz/new.py"]
    assert patch.dropped == dict.fromkeys(("a1", "a2", "a3", "a4"), comparison.TOO_MANY_CHANGES)


async def test_a_tree_is_worked_on_beside_the_event_loop(
    channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, threads = threading.get_ident(), []
    written(tmp_path / "pristine", {"a": (b"1", False)})
    written(tmp_path / "left", {"a": (b"2", False)})
    for module, name in ((tree, "digests"), (tree, "Comparison"), (records, "decode")):
        monkeypatch.setattr(module, name, _noting(getattr(module, name), threads))
    await snapshot(channel, str(tmp_path / "left"), tmp_path / "pristine")
    assert len(threads) == 4 and here not in threads


def _noting(call: Callable[..., Any], threads: list[int]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return call(*arguments)

    return noted


async def test_only_what_was_asked_for_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, [Record("a", "file", b"12")])
    assert await tree.fetch(object(), "/app", {"a": 2}) == {"a": b"12"}  # type: ignore[arg-type]
    for wanted in ({"a": 1}, {"b": 2}, {"a": 2, "b": 0}):
        with pytest.raises(SandboxError, match="other files than it was asked for"):
            await tree.fetch(object(), "/app", wanted)  # type: ignore[arg-type]


def _answer(monkeypatch: pytest.MonkeyPatch, told: list[Record]) -> None:
    """Whatever a keeper is asked, these are its records."""

    async def operate(*_: object) -> bytes:
        return records.encode(told)

    monkeypatch.setattr(tree, "operate", operate)


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a//b", "."])
async def test_a_path_that_leads_out_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, [Record(path, "file", struct.pack("!Q", 0))])
    with pytest.raises(SandboxError, match="told of a file named"):
        await tree.listing(object(), "/app")  # type: ignore[arg-type]


async def test_an_image_is_taken_out_with_its_history(channel: Any, tmp_path: Path) -> None:
    written(tmp_path / "image", {"a/run.sh": (b"echo", True), ".git/HEAD": (b"ref", False)})
    (tmp_path / "image" / "link").symlink_to("a")
    (tmp_path / "copy").mkdir()
    await take_out(channel, str(tmp_path / "image"), tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(tmp_path / "image")
    assert (tmp_path / "copy" / "link").readlink() == Path("a")
    await take_out(channel, str(tmp_path / "nowhere"), tmp_path / "copy")


async def test_an_image_is_not_taken_out_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "copy").mkdir()
    link = Record("a", "symlink", bytes(tmp_path / "outside"))
    _answer(monkeypatch, [link, Record("a/b", "file", struct.pack("!Q", 0) + bytes(32))])

    async def fetch(*_: object) -> dict[str, bytes]:
        return {"a/b": b""}

    monkeypatch.setattr(tree, "fetch", fetch)
    with pytest.raises(SandboxError, match="in no folder"):
        await take_out(object(), "/app", tmp_path / "copy")  # type: ignore[arg-type]
    assert not list((tmp_path / "outside").iterdir())


def test_what_a_task_lays_over_its_image(tmp_path: Path) -> None:
    written(
        tmp_path / "image",
        {"same": (b"1", False), "mode": (b"", False), "gone/file": (b"", False), ".git/x": (b"", False)},
    )
    written(
        tmp_path / "task", {"same": (b"1", False), "mode": (b"", True), "new/file": (b"2", False), "gone": (b"", False)}
    )
    found = delta(tmp_path / "image", tmp_path / "task")
    assert [(each.path, each.kind) for each in found] == [
        ("gone/file", "deleted"), ("new", "directory"), ("gone", "file"), ("mode", "file"), ("new/file", "file"),
    ]  # fmt: skip
