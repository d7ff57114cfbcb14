"""Every package folder that the sandbox's Python would search is covered by the toolchain's."""

import site
from pathlib import Path

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox.toolchain import Toolchain

DEBIAN = ("local/lib/python3.12/dist-packages", "lib/python3/dist-packages", "lib/python3.12/dist-packages")


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that searches what Debian's does; another build's `site` cannot be made to."""
    monkeypatch.setattr(site, "getsitepackages", lambda prefixes: [f"{prefixes[0]}/{name}" for name in DEBIAN])
    return tmp_path / "usr"


@pytest.mark.parametrize("existing", [DEBIAN[:1], DEBIAN[1:], DEBIAN])
def test_every_package_folder_is_covered(prefix: Path, tmp_path: Path, existing: tuple[str, ...]) -> None:
    for name in existing:
        (prefix / name).mkdir(parents=True)
    toolchain = Toolchain(prefix, str(prefix), tmp_path / "made")
    covered = {mount.target for mount in toolchain.mounts if mount.source == tmp_path / "made" / "site"}
    assert covered == {f"{prefix}/{name}" for name in existing}


def test_a_python_without_a_package_folder(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="has no package folder"):
        _ = Toolchain(prefix, str(prefix), tmp_path / "made").mounts
