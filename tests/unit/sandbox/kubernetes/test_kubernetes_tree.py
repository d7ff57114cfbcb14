"""Work trees as a keeper tells of them: the keeper's own program lists and fetches, the host compares."""

import asyncio
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_rl.errors import SandboxError
from lego_rl.sandbox import diff as diff_module
from lego_rl.sandbox import inside_files, records
from lego_rl.sandbox.kubernetes import tree
from lego_rl.sandbox.kubernetes.delta import delta
from lego_rl.sandbox.kubernetes.tree import Entry, TreeSnapshot, snapshot, take_out
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
    monkeypatch.setattr(diff_module, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(diff_module, "MAX_PATCH_BYTES", 250)
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
        "huge": diff_module.FILE_TOO_LARGE, "m1": "not readable", "__pycache__": "byte code", ".git": "git directory",
        "deep/.git": "git directory", "package.egg-info": "package metadata",
    }  # fmt: skip


_digest = keeper.digest_of


async def test_a_folder_that_cannot_be_read_deletes_nothing(tmp_path: Path) -> None:
    written(tmp_path / "pristine", {"hidden/a": (b"", False), "b": (b"", False)})
    found = TreeSnapshot({"hidden": Entry("directory", mode=0)}).diff(tmp_path / "pristine")
    assert found == Patch((Change("b", "deleted"),), {"hidden": "not readable"})


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a//b", "."])
async def test_a_path_that_leads_out_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def operate(*_: object) -> bytes:
        return records.encode([Record(path, "file", struct.pack("!Q", 0))])

    monkeypatch.setattr(tree, "operate", operate)
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
