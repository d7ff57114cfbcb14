"""What the tested code may leave in place of a report: nothing of it is read that is none, and nothing stays open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_rl.sandbox.report import MAX_REPORT_BYTES, read_report


def large(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_REPORT_BYTES + 1)


PLACED: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/hostname"),
    "too large a file": large,
    "a file that may not be read": lambda path: path.touch(0),
}


@pytest.mark.parametrize("place", PLACED.values(), ids=PLACED.keys())
def test_what_is_no_report_reads_as_none(tmp_path: Path, place: Callable[[Path], object]) -> None:
    path = tmp_path / "report.xml"
    place(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [read_report(path) for _ in range(3)] == [b""] * 3
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_bytes(b"<testsuites/>")
    assert read_report(tmp_path / "report.xml") == b"<testsuites/>"
