"""What a container is asked for, and what is taken out of an image."""

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox import image_trees
from lego_rl.sandbox.docker import config
from lego_rl.sandbox.docker.config import container
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.docker.image import bases
from lego_rl.sandbox.docker.origin import Origin
from lego_rl.sandbox.docker.root import Root
from lego_rl.sandbox.docker.tree import unpack
from lego_rl.sandbox.image import Image
from lego_rl.sandbox.limits import DEFAULT_LIMITS, Limits
from lego_rl.sandbox.mounts import Mount
from lego_rl.sandbox.sandbox import Phase
from lego_rl.sandbox.state import State
from lego_rl.sandbox.toolchain import Toolchain, prepare_toolchain
from lego_rl.tasks.network import NO_NETWORK


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return prepare_toolchain(State(tmp_path_factory.mktemp("toolchain")))


@pytest.fixture
def origin(tmp_path: Path, toolchain: Toolchain) -> Origin:
    tmp_path.chmod(0o755)
    state = State(tmp_path / "state")
    root = Root("sha256:1", (), volumes=("/data/", "/app", "/tmp"))
    engine = Engine(tmp_path / "d.sock")
    return Origin(Image(None, tmp_path, "/app/work"), engine, root, toolchain, state, 1234)


def asked(origin: Origin, *mounts: Mount, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    run = origin.state.new_run()
    body = container(origin, Phase.AGENT, mounts, limits, run, NO_NETWORK)
    return {**body, **body["HostConfig"]}


def test_nothing_of_the_isolation_is_left_out(origin: Origin) -> None:
    body = asked(origin, limits=Limits(memory_mb=100, processes=50, scratch_mb=3, disk_mb=7))
    assert body["User"] == "1234:1234"
    assert (body["NetworkMode"], body["ReadonlyRootfs"], body["CapDrop"]) == ("none", True, ["ALL"])
    assert body["SecurityOpt"] == ["no-new-privileges:true"]
    assert (body["Memory"], body["MemorySwap"], body["PidsLimit"]) == (100 << 20, 100 << 20, 50)
    assert "/sys" in body["MaskedPaths"]
    assert "/proc/sys" in body["ReadonlyPaths"]
    assert set(body["Tmpfs"]) == {"/data", "/tmp", "/var/tmp", "/dev/shm", "/home/agent", "/logs"}
    assert all(f"size={3 << 20}" in options for options in body["Tmpfs"].values())
    assert body["Cmd"][3] == str(7 << 20)
    writable = [each["Target"] for each in body["Mounts"] if not each.get("ReadOnly")]
    assert writable == ["/run/report", "/app/work"]


def test_the_work_tree_is_an_overlay_that_goes_with_the_container(origin: Origin) -> None:
    volume = asked(origin)["Mounts"][-1]
    assert "Source" not in volume  # a volume without a name is removed with its container
    options = volume["VolumeOptions"]["DriverConfig"]["Options"]
    assert options["type"] == "overlay"
    assert {"userxattr", "nosuid", "nodev", f"lowerdir={origin.pristine}"} < set(options["o"].split(","))


@pytest.mark.parametrize("name", ["a,b", "a:b", 'a"b', "a\\b"])
def test_a_layer_that_would_be_read_as_something_else(origin: Origin, name: str) -> None:
    with pytest.raises(SandboxError, match="cannot be a layer"):
        asked(replace(origin, prepared=replace(origin.prepared, pristine=origin.pristine / name)))


def test_a_mount_over_the_work_tree(origin: Origin, tmp_path: Path) -> None:
    for target in ("/app", "/app/work"):
        with pytest.raises(SandboxError, match="would cover the work tree"):
            asked(origin, Mount(tmp_path, target))


def test_what_is_mounted_below_a_source_is_read_only_too(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in side").mkdir()
    table = tmp_path / "mountinfo"
    below = str(tmp_path / "in side").replace(" ", "\\040")
    table.write_text(f"1 0 0:1 / {below} rw - tmpfs tmpfs rw\n2 0 0:2 / /elsewhere rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(config, "MOUNTS", table)
    mounts = {each["Target"]: each for each in asked(origin, Mount(tmp_path, "/opt/x"))["Mounts"]}
    assert mounts["/opt/x"]["BindOptions"]["NonRecursive"]
    assert mounts["/opt/x/in side"]["Source"] == str(tmp_path / "in side")
    assert mounts["/opt/x/in side"]["ReadOnly"]


def packed(*entries: tuple[str, bytes, str]) -> io.BytesIO:
    """A tar of entries: name, type, content or target."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, text in entries:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.mode = 0o755
            if kind == tarfile.REGTYPE:
                entry.size = len(text)
            else:
                entry.linkname = text
            tar.addfile(entry, io.BytesIO(text.encode()))
    stream.seek(0)
    return stream


FOLDER, FILE, LINK, HARD, PIPE = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


def test_a_tree_out_of_an_image(tmp_path: Path) -> None:
    unpack(
        packed(
            ("app", FOLDER, ""), ("app/d", FOLDER, ""), ("app/d/f", FILE, "x"), ("app/out", LINK, "/etc/passwd"),
            ("app/same", HARD, "app/d/f"), ("app/pipe", PIPE, ""),
        ),
        tmp_path,
    )  # fmt: skip
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} == {"d", "d/f", "out", "same"}
    assert (tmp_path / "same").read_text() == "x"
    assert (tmp_path / "same").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out").is_symlink()


@pytest.mark.parametrize(
    "entries",
    [
        [("app/link", LINK, "/tmp"), ("app/link/x", FILE, "x")],
        [("app/../../x", FILE, "x")],
        [("app/..", FOLDER, "")],
        [("app/nowhere/x", FILE, "x")],
        [("app/x", LINK, "/etc/passwd"), ("app/x", FILE, "x")],
        [("app/x", FILE, "1"), ("app/x", FILE, "2")],
        [("app/x", HARD, "etc/passwd")],
    ],
)
def test_nothing_is_written_outside_or_twice(tmp_path: Path, entries: list[tuple[str, bytes, str]]) -> None:
    target = tmp_path / "t"
    target.mkdir()
    with pytest.raises(SandboxError, match=r"holds|links"):
        unpack(packed(("app", FOLDER, ""), *entries), target)
    assert not (tmp_path / "x").exists()


def test_a_tree_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [("app", FOLDER, ""), *((f"app/{name}", FILE, "") for name in "abc")]
    with monkeypatch.context() as patch:
        patch.setattr(image_trees, "MAX_BYTES", 2)
        with pytest.raises(SandboxError, match="larger than"):
            unpack(packed(("app", FOLDER, ""), ("app/f", FILE, "xyz")), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(image_trees, "MAX_ENTRIES", 3)
        with pytest.raises(SandboxError, match="or 3 paths"):
            unpack(packed(*many), tmp_path)
    with pytest.raises(SandboxError, match="no tar"):
        unpack(io.BytesIO(b"x" * 1024), tmp_path)


def test_what_a_dockerfile_starts_from(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "# FROM comment\nARG V=1\nFROM --platform=linux/amd64 a:1 AS One\nfrom scratch\nFROM one as two\n"
        "FROM base:$V\nRUN echo FROM x\n FROM b\n"
    )
    assert list(bases(tmp_path / "Dockerfile")) == ["a:1", "b"]
