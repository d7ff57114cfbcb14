"""Control groups over folders that look like the kernel's, and bounded output."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_rl.sandbox.cgroups import Cgroups, Hierarchies
from lego_rl.sandbox.limits import Limits, Mechanism
from lego_rl.sandbox.mountinfo import parsed
from lego_rl.sandbox.output import BoundedOutput

MOUNTS = """\
25 1 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
26 1 0:24 /jobs /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
27 1 0:25 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
28 1 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
29 1 8:1 / / rw - ext4 /dev/sda1 rw
"""
MEMBERSHIPS = "4:memory:/a/b\n3:pids:/jobs/7\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/user.slice\n"


def test_own_groups_are_found_where_they_are_mounted() -> None:
    found = Hierarchies.parse(MEMBERSHIPS, parsed(MOUNTS.encode()))
    assert found.own_unified == Path("/sys/fs/cgroup/unified/user.slice")
    assert found.legacy == {
        "memory": Path("/sys/fs/cgroup/memory/a/b"),
        "pids": Path("/sys/fs/cgroup/pids/7"),
        "cpu": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "cpuacct": Path("/sys/fs/cgroup/cpu,cpuacct"),
    }


def test_version_2_where_the_next_group_up_hands_its_controllers_on(tmp_path: Path) -> None:
    own = tmp_path / "user.slice" / "own"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("\n")
    (own.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    groups = Cgroups.create("lego-x", Limits(memory_mb=3, processes=9), Hierarchies(own, {}))
    assert groups.report().memory == groups.report().processes == "cgroup-v2"
    assert groups.paths == [own.parent / "lego-x"]
    assert (own.parent / "lego-x" / "memory.max").read_text() == str(3 << 20)
    assert (own.parent / "lego-x" / "pids.max").read_text() == "9"
    (own.parent / "lego-x" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (own.parent / "lego-x" / "pids.events").write_text("max 4\n")
    assert (groups.hits().memory, groups.hits().processes) == (1, 4)


@pytest.mark.parametrize(("version", "memory"), [("cgroup-v1", "memory.limit_in_bytes"), ("cgroup-v2", "memory.max")])
def test_what_somebody_elses_groups_hold(tmp_path: Path, version: Mechanism, memory: str) -> None:
    groups = Cgroups({"memory": tmp_path, "pids": tmp_path}, version)
    (tmp_path / memory).write_text("1048576\n")
    (tmp_path / "pids.max").write_text("9\n")
    assert groups.held() == (1048576, 9)
    (tmp_path / "pids.max").write_text("max\n")
    with pytest.raises(OSError, match="a limit is 1048576 or max"):
        groups.held()


def test_the_groups_of_a_process_that_is_gone() -> None:
    with pytest.raises(OSError, match="No such file"):
        Cgroups.of(2**22 + 1)  # beyond the most that the kernel numbers


def test_no_group_at_all_is_reported(tmp_path: Path) -> None:
    groups = Cgroups.create("lego-x", Limits(), Hierarchies(tmp_path / "absent", {"memory": tmp_path / "absent"}))
    assert not groups.paths
    assert groups.report().memory == "rlimit"


@given(pieces=st.lists(st.binary(max_size=40)), limit=st.integers(2, 50))
def test_bounded_output_keeps_both_ends(pieces: list[bytes], limit: int) -> None:
    output = BoundedOutput(limit)

    async def write() -> None:
        for piece in pieces:
            await output.write(piece)

    asyncio.run(write())
    data, half = b"".join(pieces), limit // 2
    if len(data) <= 2 * half:
        assert output.text() == data.decode(errors="replace")
    else:
        note = f"\n[... {len(data) - 2 * half} bytes left out ...]\n".encode()
        assert output.text() == (data[:half] + note + data[-half:]).decode(errors="replace")
