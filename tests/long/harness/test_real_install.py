"""Both harnesses installed from the package index (or uv's cache) into an empty root, as a user's command does it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lego_rl.harness import bundle_record, registry

pytestmark = pytest.mark.timeout(1_800)

INSTALL = (
    "import sys; from pathlib import Path; from lego_rl.harness import registry\n"
    "print(registry.install(sys.argv[1], Path(sys.argv[2])).hash)"
)


def start(name: str, root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", INSTALL, name, root], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", sorted(registry.REGISTRY))
def test_two_installs_at_once_give_one_bundle_that_is_whole(name: str, tmp_path: Path) -> None:
    processes = [start(name, tmp_path), start(name, tmp_path)]
    hashes = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    bundle = registry.verify(name, tmp_path)
    assert hashes == {bundle.hash}
    assert registry.installed(tmp_path) == [bundle]
    assert bundle.hash == bundle_record.tree_hash(bundle.path)


@pytest.mark.parametrize("name", sorted(registry.REGISTRY))
def test_a_bundle_is_the_same_wherever_it_is_installed(name: str, tmp_path: Path) -> None:
    elsewhere = registry.install(name, tmp_path / "a rather long path, with a space in it")
    assert elsewhere.hash == registry.load(name).hash


def test_an_install_that_is_killed_is_made_good_by_the_next(tmp_path: Path) -> None:
    process = start("claude-code", tmp_path)
    while process.poll() is None and not list((tmp_path / "claude-code").glob(".staging-*")):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the install ended before it was seen to begin"
    assert registry.installed(tmp_path) == []
    registry.install("claude-code", tmp_path)
    assert not list((tmp_path / "claude-code").glob(".staging-*"))
