"""Fetching from npm: what is not the pinned tarball is refused, and what npm says is passed on.

The client here is a program named npm that hands out tarballs of a folder; the real one installs in tests/long.
"""

import io
import os
import tarfile
from pathlib import Path

import pytest

from lego_rl.errors import HarnessError
from lego_rl.harness import npm, registry

CLIENT = """#!/bin/sh
for spec; do :; done
echo "$@" > "$SHELF/asked"
[ -f "$SHELF/$spec.tgz" ] || { echo "npm error 404 No match found for $spec" >&2; exit 1; }
cp "$SHELF/$spec.tgz" ./some-name.tgz
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose tarballs npm hands out."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(CLIENT)
    program.chmod(0o755)
    monkeypatch.setenv("SHELF", str(folder))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder


def shelve(shelf: Path, name: str, files: dict[str, bytes]) -> npm.Tarball:
    """Put a package on the shelf; what to pin of it."""
    path = shelf / f"{name}@1.0.0.tgz"
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in files.items():
            info = tarfile.TarInfo(entry)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    return npm.Tarball(name, "1.0.0", npm.integrity(path))


def test_the_pinned_package_is_unpacked_and_no_script_of_it_runs(shelf: Path, tmp_path: Path) -> None:
    tarball = shelve(shelf, "@scope/tool", {"package/bin/tool": b"#!/bin/sh\n", "package/package.json": b"{}"})
    npm.fetch(tarball, tmp_path / "tool")
    assert (tmp_path / "tool" / "bin" / "tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "tool" / "bin" / "tool").stat().st_mode & 0o111
    assert "--ignore-scripts" in (shelf / "asked").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "shelf", "tool"]


def test_another_tarball_than_the_pinned_one_is_refused(shelf: Path, tmp_path: Path) -> None:
    pinned = shelve(shelf, "tool", {"package/tool": b"one"})
    shelve(shelf, "tool", {"package/tool": b"two"})
    with pytest.raises(HarnessError, match=r"tool@1\.0\.0 is not the package that is pinned"):
        npm.fetch(pinned, tmp_path / "tool")
    assert not (tmp_path / "tool").exists()


def test_what_npm_says_is_passed_on(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"npm could not fetch tool@1\.0\.0: npm error 404 No match found"):
        npm.fetch(npm.Tarball("tool", "1.0.0", "sha512-"), tmp_path / "tool")


@pytest.mark.parametrize(
    ("files", "message"),
    [({"other/tool": b""}, "holds no folder named package"), ({"../tool": b""}, "cannot be unpacked")],
)
def test_a_tarball_of_another_make_is_refused(
    shelf: Path, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(HarnessError, match=message):
        npm.fetch(shelve(shelf, "tool", files), tmp_path / "tool")
    assert not (tmp_path.parent / "tool").exists()


@pytest.mark.parametrize("name", ["opencode", "qwen-code"])
def test_a_harness_of_other_content_is_not_installed(name: str, shelf: Path, tmp_path: Path) -> None:
    for spec in ("opencode-linux-x64@1.18.33", "@qwen-code/qwen-code@0.24.4"):
        (shelf / f"{spec}.tgz").parent.mkdir(exist_ok=True)
        (shelf / f"{spec}.tgz").write_bytes(b"something else")
    with pytest.raises(HarnessError, match="is not the package that is pinned"):
        registry.install(name, tmp_path / "bundles")
    assert registry.installed(tmp_path / "bundles") == []
