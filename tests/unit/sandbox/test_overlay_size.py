"""The size of what a sandbox wrote: nothing of it is passed over, whatever stands in the way of a look."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lego_rl.sandbox.held import Held
from lego_rl.sandbox.overlay import UnseenError, measure
from lego_rl.sandbox.pace import Pace
from lego_rl.sandbox.state import State

ORDINARY = 1234
MIB = 1 << 20
AS_USER = """
import lego_rl.sandbox.overlay, os, pathlib, resource, sys
uid = int(sys.argv.pop(1))
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
"""
LONG = """
place = sys.argv[1]
os.chdir(place)
for _ in range((4000 - len(place)) // 241):
    os.mkdir("d" * 240)
    os.chdir("d" * 240)
for name in "ab":
    with open(name * 255, "wb") as file:
        file.write(bytes(1 << 20))
os.chmod(".", 0)
print("made", flush=True)
while len(sys.argv) > 2:
    os.chmod(".", 0o755)
    os.chmod(".", 0)
"""
LOOK = """
import resource
from pathlib import Path
from lego_rl.sandbox.overlay import UnseenError, measure
from lego_rl.sandbox.pace import Pace
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
for _ in range(int(sys.argv[2])):
    try:
        print(measure(Path(sys.argv[1]), 1 << 30, Pace()) >> 20)
    except UnseenError as error:
        print(error)
"""


@contextmanager
def as_ordinary_user(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that no permission is spared, whoever runs the tests; it ends with the block."""
    uid = ORDINARY if os.geteuid() == 0 else os.geteuid()
    command = [sys.executable, "-c", AS_USER + code, str(uid), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def looks(folder: Path, number: int, *arguments: str) -> set[str]:
    with as_ordinary_user(LOOK, str(folder), str(number), *arguments) as process:
        return set(process.communicate()[0].splitlines())


@pytest.fixture
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the ordinary user's."""
    folder = tmp_path_factory.mktemp("layer")
    if os.geteuid() == 0:
        for place in (folder, *folder.parents[:2]):
            place.chmod(0o755)
        os.chown(folder, ORDINARY, -1)
    return folder


def test_names_that_are_too_long_in_an_unreadable_folder(layer: Path) -> None:
    with as_ordinary_user(LONG, str(layer)) as process:
        process.wait()
    assert looks(layer, 1) == {"2"}
    assert measure(layer, MIB, Pace()) > MIB


def test_a_folder_that_is_unreadable_now_and_then(layer: Path) -> None:
    with as_ordinary_user(LONG, str(layer), "blink") as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = looks(layer, 200)
    assert found <= {"2", "a folder cannot be looked at: Permission denied"}


def test_a_lack_of_descriptors_is_not_an_empty_folder(layer: Path) -> None:
    assert looks(layer, 1, "no descriptors") == {"a folder cannot be looked at: Too many open files"}


def test_nested_beyond_what_a_path_names(layer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(layer / "state")
    run = state.new_run()
    monkeypatch.chdir(run.upper)
    for _ in range(30):
        os.mkdir("d" * 200)  # noqa: PTH102  # no path names it
        os.chdir("d" * 200)
    with pytest.raises(UnseenError, match="File name too long"):
        measure(run.upper, MIB, Pace())
    with pytest.raises(UnseenError, match="File name too long"):
        Held(state).on_disk(layer.stat().st_dev)
    assert run.remove()


def test_what_vanishes_is_no_size(layer: Path) -> None:
    assert measure(layer / "gone", MIB, Pace()) == 0
    (layer / "link").symlink_to("/usr")
    assert measure(layer / "link", MIB, Pace()) == 0
