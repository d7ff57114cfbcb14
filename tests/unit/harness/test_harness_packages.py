"""Fetching through the real uv from a folder of wheels: what is not the pinned program is refused."""

import platform
import zipfile
from pathlib import Path

import pytest

from lego_rl.errors import HarnessError
from lego_rl.harness import packages, registry

FAKE_PROGRAM = "#!/bin/sh\necho '9.9.9 (Claude Code)'\n"


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    meta = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, *meta, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, **meta, f"{info}/RECORD": record}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, content)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that uv takes packages from, and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def test_fetch_installs_the_packages_named_and_no_others(index: Path, tmp_path: Path) -> None:
    wheel(index, "alpha", "1.0", {"alpha.py": "x = 1\n"})
    wheel(index, "beta", "1.0", {"beta.py": "x = 2\n"})
    packages.fetch("alpha==1.0\n", tmp_path / "target")
    assert (tmp_path / "target" / "alpha.py").read_text() == "x = 1\n"
    assert not (tmp_path / "target" / "beta.py").exists()


def test_a_package_that_is_not_there_is_a_clear_error(index: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"uv could not install gamma==1\.0"):
        packages.fetch("gamma==1.0\n", tmp_path / "target")


def test_another_program_than_the_pinned_one_is_refused(index: Path, tmp_path: Path) -> None:
    wheel(index, "claude_agent_sdk", "0.2.189", {"claude_agent_sdk/_bundled/claude": FAKE_PROGRAM})
    with pytest.raises(HarnessError, match="another program than the one pinned"):
        registry.install("claude-code", tmp_path / "bundles")
    assert registry.installed(tmp_path / "bundles") == []


def test_another_version_is_refused_where_no_hash_is_pinned(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    wheel(index, "claude_agent_sdk", "0.2.189", {"claude_agent_sdk/_bundled/claude": FAKE_PROGRAM})
    with pytest.raises(HarnessError, match=r"9\.9\.9 \(Claude Code\)"):
        registry.install("claude-code", tmp_path / "bundles")


def test_a_wheel_without_the_program_is_refused(index: Path, tmp_path: Path) -> None:
    wheel(index, "claude_agent_sdk", "0.2.189", {"claude_agent_sdk/__init__.py": ""})
    with pytest.raises(HarnessError, match="holds no Claude Code program"):
        registry.install("claude-code", tmp_path / "bundles")
