"""What the host has run out of, looked up where the kernel says it."""

import os
import subprocess
import sys
from pathlib import Path

from lego_rl.rollout.shortage import Reserves, host_shortage

NOTHING = Reserves(disk_bytes=0, files=0, handles=0, memory_bytes=0)
TOO_MUCH = 1 << 62


def test_a_host_with_room_has_no_shortage(tmp_path: Path) -> None:
    assert host_shortage([tmp_path, tmp_path / "not" / "made" / "yet"], NOTHING) is None


def test_each_reserve_is_looked_at(tmp_path: Path) -> None:
    assert f"disk that holds {tmp_path} is full" in str(host_shortage([tmp_path / "new"], Reserves(TOO_MUCH, 0, 0, 0)))
    if os.statvfs(tmp_path).f_files:
        assert "inodes left" in str(host_shortage([tmp_path], Reserves(0, TOO_MUCH, 0, 0)))
    assert "files open" in str(host_shortage([tmp_path], Reserves(0, 0, TOO_MUCH, 0)))
    assert "MiB of memory left" in str(host_shortage([], Reserves(0, 0, 0, TOO_MUCH)))


def test_a_process_without_file_handles_is_short_of_them(tmp_path: Path) -> None:
    # In a process of its own: nothing else must need a handle meanwhile.
    program = f"""
import os, resource
from pathlib import Path
from lego_rl.rollout.shortage import Reserves, host_shortage
reserves = Reserves(disk_bytes=0, files=0, memory_bytes=0)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = len(os.listdir("/proc/self/fd"))
for limit in (used + 40, used + 5, used - 1):
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    found = host_shortage([Path({str(tmp_path)!r})], reserves)
    print(found and (found.of, found.found))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    enough, few, none = done.stdout.splitlines()
    assert enough == "None"
    assert "'handles'" in few and "files open" in few
    assert "'handles'" in none and "cannot say what it has left (Too many open files)" in none
