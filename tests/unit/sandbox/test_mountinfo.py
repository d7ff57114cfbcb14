"""What the kernel's table of mounts says, whatever the names in it."""

import os
from pathlib import Path

import pytest

from lego_rl.sandbox import held
from lego_rl.sandbox.mountinfo import Mounted, mounted, parsed

TABLE = rb"""22 1 0:20 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a
23 22 0:21 /a\040b /x\134y\040z/caf%b rw master:2 shared:3 - tmpfs none rw,size=1k
24 22 8:1 / /plain rw - ext4 /dev/sda1 rw,errors=remount-ro
""" % (b"\xe9",)


def test_a_table_is_read_to_the_letter() -> None:
    assert list(parsed(TABLE)) == [
        Mounted(os.makedev(0, 20), "/", "/", "overlay", ("rw", "lowerdir=/a")),
        Mounted(os.makedev(0, 21), "/a b", "/x\\y z/caf\udce9", "tmpfs", ("rw", "size=1k")),
        Mounted(os.makedev(8, 1), "/", "/plain", "ext4", ("rw", "errors=remount-ro")),
    ]


def test_this_process_has_a_root() -> None:
    assert "/" in {mount.point for mount in mounted()}


def test_a_temporary_file_system_with_a_blank_in_its_name_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured by its mount point, which the table has in octal: taken to the letter, it would count as nothing."""
    own = tmp_path / "own"
    own.write_bytes(b"")
    other = tmp_path / "other"
    other.write_bytes(
        b"1 1 0:99 / " + bytes(tmp_path / "with blank").replace(b" ", rb"\040") + b" rw - tmpfs none rw\n"
    )
    (tmp_path / "with blank").mkdir()
    monkeypatch.setattr(held, "table_of", lambda process: own if process == "self" else other)
    found = os.statvfs(tmp_path)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    assert held._in_temporary_files([os.getpid()]) >= used // 2 > 0
