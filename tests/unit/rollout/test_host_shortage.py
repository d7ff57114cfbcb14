"""What the host has run out of, looked up where the kernel says it."""

import errno
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lego_rl.rollout import shortage
from lego_rl.rollout.shortage import Reserves, host_shortage
from lego_rl.sandbox.held import Held
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.state import State

NOTHING = Reserves(disk_bytes=0, files=0, handles=0, memory_bytes=0)
TOO_MUCH = 1 << 62


def test_a_host_with_room_has_no_shortage(tmp_path: Path) -> None:
    held = Held(State(tmp_path / "state"))
    assert host_shortage([tmp_path, tmp_path / "not" / "made" / "yet"], held, Limits(), NOTHING) is None


def test_each_reserve_is_looked_at(tmp_path: Path) -> None:
    held = Held(State(tmp_path / "state"))

    def short(*folders: Path, **reserves: int) -> str:
        return str(host_shortage(folders, held, Limits(), replace(NOTHING, **reserves)))

    assert f"disk that holds {tmp_path} is full" in short(tmp_path / "new", disk_bytes=TOO_MUCH)
    if os.statvfs(tmp_path).f_files:
        assert "inodes left" in short(tmp_path, files=TOO_MUCH)
    assert "files open" in short(handles=TOO_MUCH)
    assert "MiB of memory left" in short(memory_bytes=TOO_MUCH)


@dataclass
class Disk:
    """A small disk: what lies in some folders is all that is on it."""

    size: int
    folders: tuple[Path, ...]

    def free(self, _: Path) -> int:
        return max(0, self.size - sum(each.st_blocks * 512 for folder in self.folders for each in below(folder)))


def below(folder: Path) -> list[os.stat_result]:
    return [path.stat() for path in folder.rglob("*") if path.is_file()]


def test_what_sandboxes_hold_together_is_no_shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, scratch, others = State(tmp_path / "state"), tmp_path / "scratch", tmp_path / "others"
    scratch.mkdir()
    others.mkdir()
    monkeypatch.setattr(shortage, "free_bytes", Disk(8 << 20, (state.root, scratch, others)).free)
    held, allowed = Held(state, (scratch,)), Limits(disk_mb=4)

    def is_full(held: Held) -> bool:
        found = host_shortage([tmp_path], held, allowed, replace(NOTHING, disk_bytes=1 << 20))
        assert found is None or found.of == "disk"
        return found is not None

    for run in (state.new_run(), state.new_run()):
        (run.upper / "large").write_bytes(bytes(3 << 20))
    (scratch / "logs").write_bytes(bytes(2 << 20))
    assert not is_full(held)
    assert is_full(Held(State(tmp_path / "elsewhere")))
    for run in state.sandboxes():
        run.remove()
    assert not is_full(held)
    (others / "large").write_bytes(bytes(6 << 20))
    assert is_full(held)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENODEV, errno.ENFILE, errno.EACCES])
def test_what_cannot_be_measured_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(_: Path) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(shortage, "free_bytes", fail)
    assert host_shortage([tmp_path], Held(State(tmp_path)), Limits(), Reserves()) is None


def test_a_process_without_file_handles_is_short_of_them(tmp_path: Path) -> None:
    # In a process of its own: nothing else must need a handle meanwhile.
    program = f"""
import os, resource
from pathlib import Path
from lego_rl.rollout.shortage import Reserves, host_shortage
from lego_rl.sandbox.held import Held
from lego_rl.sandbox.limits import Limits
from lego_rl.sandbox.state import State
held = Held(State(Path({str(tmp_path)!r})))
reserves = Reserves(disk_bytes=0, files=0, memory_bytes=0)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = len(os.listdir("/proc/self/fd"))
for limit in (used + 40, used + 5, used - 1):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    found = host_shortage([Path({str(tmp_path)!r})], held, Limits(), reserves)
    print(found and (found.of, found.found))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    enough, few, none = done.stdout.splitlines()
    assert enough == "None"
    assert "'handles'" in few and "files open" in few
    assert "'handles'" in none and "files open" in none
