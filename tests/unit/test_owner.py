"""Who is dead is said to be dead, and nobody else is."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lego_rl.owner import is_dead, is_of_another_boot, named_in, own_stamp, owned_folder

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]")


def parts() -> list[str]:
    return own_stamp().split(".")


def stamp(**other: str) -> str:
    """This process's stamp with some parts replaced."""
    names = ("pid", "started", "pids", "time", "boot")
    return ".".join(other.get(name, part) for name, part in zip(names, parts(), strict=True))


def later(text: str) -> str:
    return str(int(text) + 1)


def test_this_process_is_alive_and_its_stamp_fits_a_label() -> None:
    assert LABEL.fullmatch(own_stamp())
    assert not is_dead(own_stamp())
    assert not is_of_another_boot(own_stamp())


def test_a_process_that_ended_is_dead() -> None:
    code = "from lego_rl.owner import own_stamp; print(own_stamp())"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert is_dead(ended)


THREADED = """
import ctypes, threading, time
from lego_rl.owner import own_stamp
print(own_stamp(), flush=True)
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_that_nobody_asks_how_it_ended_is_dead() -> None:
    code = "from lego_rl.owner import own_stamp; print(own_stamp())"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        ended = run.stdout.read().strip()
        os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{run.pid}").exists(), "it is still in the table"
        assert is_dead(ended)


def test_a_process_whose_first_thread_alone_has_ended_is_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", THREADED], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        said = run.stdout.readline().strip()
        until = time.monotonic() + 20
        while Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < until, "its first thread goes on"
            time.sleep(0.01)
        assert not is_dead(said)
        run.kill()


def test_an_id_that_is_used_again_is_of_another_process() -> None:
    assert is_dead(stamp(started=later(parts()[1])))


@pytest.mark.parametrize("part", ["pids", "time", "boot"])
def test_who_is_of_another_namespace_or_machine_may_be_alive(part: str) -> None:
    far = stamp(pid="4194304", **{part: "0123456789ab" if part == "boot" else "1"})
    assert not is_dead(far)
    assert is_of_another_boot(far) == (part == "boot")


def test_a_process_in_another_pid_namespace_cannot_tell() -> None:
    """A real one: it sees that it cannot see us."""
    code = f"from lego_rl.owner import is_dead, own_stamp; print(is_dead({stamp(started='1')!r}), own_stamp())"
    inside = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc"]
    said = subprocess.run([*inside, sys.executable, "-c", code], check=True, capture_output=True, text=True)
    dead, other = said.stdout.split()
    assert dead == "False"
    assert is_dead(stamp(started="1")), "here it can be told"
    assert not is_dead(other), "and of that one we cannot tell either, though it has ended"


@pytest.mark.parametrize("keep", range(40))
def test_a_stamp_that_was_cut_short_names_no_dead_owner(keep: int) -> None:
    dead = stamp(started=later(parts()[1]))
    cut = dead[: min(keep, len(dead) - 1)]
    assert not is_dead(cut)
    assert not is_of_another_boot(cut)


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3", "+1.5.1.1.0123456789ab", "0.1.1.1.0123456789ab", "1.2.3.4.0123456789ab\n", "1.2.3.4.0123456789AB"],
)
def test_what_is_no_stamp_names_nobody(text: str) -> None:
    assert not is_dead(text)
    assert not is_of_another_boot(text)
    assert named_in(f"build-{text}-x") is None


NAMED = """
import ctypes
ctypes.CDLL(None).prctl(15, b"\\xff) 1 (", 0, 0, 0)
from lego_rl.owner import own_stamp
print(own_stamp(), flush=True)
input()
"""


def test_a_process_may_be_named_in_any_way() -> None:
    with subprocess.Popen([sys.executable, "-c", NAMED], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        assert not is_dead(said)
        process.communicate("\n")
    assert is_dead(said)


def test_a_folder_names_its_owner_from_the_moment_it_exists(tmp_path: Path) -> None:
    with owned_folder(tmp_path, "build-") as folder:
        assert named_in(folder.name) == own_stamp()
        assert [*tmp_path.iterdir()] == [folder]
    assert [*tmp_path.iterdir()] == []
