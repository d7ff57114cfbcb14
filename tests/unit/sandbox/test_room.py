"""A run whose trials could take from each other what they were promised does not begin."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox import room
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.room import check_room
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State

SMALL, LARGE = Limits(memory_mb=100, disk_mb=5), Limits(memory_mb=300, disk_mb=20)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with little of everything."""
    monkeypatch.setattr(room, "free_bytes", lambda _: 100 << 20)
    monkeypatch.setattr(room, "_installed_mb", lambda: 600)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))


def checked(folder: Path, *allowed: Limits, concurrency: int, settings: SandboxSettings | None = None) -> str | None:
    return check_room(settings or SandboxSettings(), State(folder / "not" / "made"), allowed, concurrency)


def test_there_is_room(tmp_path: Path) -> None:
    assert checked(tmp_path, SMALL, LARGE, concurrency=2) is None
    assert checked(tmp_path, SMALL, concurrency=6) is None


def test_the_disk_is_too_small(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="3 trials at once may write 120 MiB, and") as told:
        checked(tmp_path, SMALL, LARGE, concurrency=3)
    assert "has room for 100; lower the concurrency to 2, lower sandbox.disk_mb" in str(told.value)
    with pytest.raises(SandboxError, match=r"room for 100; lower sandbox\.disk_mb"):
        checked(tmp_path, Limits(disk_mb=51), concurrency=1)


def test_a_trial_has_the_agents_sandbox_and_that_of_the_tests_on_the_disk(tmp_path: Path) -> None:
    assert checked(tmp_path, Limits(memory_mb=1, disk_mb=50), concurrency=1) is None
    with pytest.raises(SandboxError, match="1 trials at once may write 102 MiB"):
        checked(tmp_path, Limits(memory_mb=1, disk_mb=51), concurrency=1)


def test_more_memory_than_there_is_is_told_of(tmp_path: Path) -> None:
    told = checked(tmp_path, Limits(memory_mb=301, disk_mb=1), concurrency=2)
    assert told is not None
    assert told.startswith("2 trials at once may use 602 MiB of memory and this machine has 600: ")


def test_there_are_too_few_file_handles(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"7 trials at once need 288 open files, .* may have 256; raise it"):
        checked(tmp_path, SMALL, concurrency=7)


def test_pods_write_elsewhere(tmp_path: Path) -> None:
    assert checked(tmp_path, LARGE, concurrency=6, settings=SandboxSettings(environment="kubernetes")) is None


def test_this_machine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert checked(tmp_path, Limits(memory_mb=1, disk_mb=1), concurrency=1) is None
    with pytest.raises(SandboxError, match="may write"):
        checked(tmp_path, Limits(disk_mb=1 << 50), concurrency=1)


def test_what_this_process_may_raise_by_itself_it_raises(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from lego_rl.sandbox.limits import Limits\n"
        "from lego_rl.sandbox.room import check_room\n"
        "from lego_rl.sandbox.settings import SandboxSettings\n"
        "from lego_rl.sandbox.state import State\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 2000))\n"
        "check_room(SandboxSettings(), State(Path(sys.argv[1])), [Limits(memory_mb=1, disk_mb=1)], 50)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(2000, 2000)\n", "")
