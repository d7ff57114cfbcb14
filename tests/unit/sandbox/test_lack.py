"""Whose lack an error tells of: this process's own and one that sandboxes can cause are evidence of nothing."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lego_rl.errors import SandboxError
from lego_rl.sandbox import held, lack
from lego_rl.sandbox.bubblewrap.box import BubblewrapSandbox
from lego_rl.sandbox.cgroups import Cgroups
from lego_rl.sandbox.docker.ending import ending_of
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.loss import LossCause


def of(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def because_of(cause: Exception, problem: str = "it failed") -> SandboxError:
    error = SandboxError(problem, "")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM])
def test_who_could_not_ask_has_heard_no_silence(code: int) -> None:
    assert lack.is_own(of(code))
    assert lack.is_own(because_of(of(code)))


@pytest.mark.parametrize("error", [of(errno.ECONNREFUSED), of(errno.ENOENT), TimeoutError(), SandboxError("gone", "")])
def test_an_answer_that_did_not_come_is_silence(error: Exception) -> None:
    assert not lack.is_own(error)


@pytest.mark.parametrize(
    "error",
    [
        of(errno.ENOSPC),
        because_of(because_of(of(errno.EMFILE))),
        SandboxError("a sandbox could not be built: bwrap: Can't mkdir /x: No space left on device", ""),
        SandboxError("Docker refused POST /containers/create: mkdir /x: no space left on device", ""),
        SandboxError("a sandbox could not be built: [Errno 11] Resource temporarily unavailable", ""),
    ],
)
def test_other_sandboxes_can_take_room(error: Exception) -> None:
    assert lack.is_of_room(error)
    assert not lack.is_of_time(error)


@pytest.mark.parametrize("cause", [TimeoutError(), subprocess.TimeoutExpired("bwrap", 20)])
def test_other_sandboxes_can_take_time(cause: Exception) -> None:
    assert lack.is_of_time(because_of(cause))
    assert not lack.is_of_room(because_of(cause))


@pytest.mark.parametrize("error", [of(errno.ENOENT), SandboxError("bubblewrap is not installed", "")])
def test_no_sandbox_takes_programs_away(error: Exception) -> None:
    assert not lack.is_of_room(error)
    assert not lack.is_of_time(error)


ASK = """
import os, resource, sys
from pathlib import Path
from lego_rl.sandbox.docker.ending import ending_of
from lego_rl.sandbox.docker.engine import Engine
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
print(ending_of(Engine(Path(sys.argv[1])), "c").loss)
"""


def test_a_daemon_that_cannot_be_asked_is_not_gone(tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    loss = ending_of(Engine(socket), "c").loss
    assert loss is not None
    assert loss.cause is LossCause.RUNTIME
    done = subprocess.run([sys.executable, "-c", ASK, socket], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
    assert "Too many open files" in done.stderr


@pytest.mark.parametrize(("said", "lost"), [("oom_kill 0", True), ("oom_kill 1", False), ("", False), (None, False)])
async def test_a_kill_counts_only_where_the_kernel_says_that_it_was_not_for_memory(
    tmp_path: Path, said: str | None, lost: bool
) -> None:
    if said is not None:
        (tmp_path / "memory.events").write_text(said)
    box: Any = SimpleNamespace(
        _cgroups=Cgroups({"memory": tmp_path, "pids": tmp_path}, "cgroup-v2"),
        _process=SimpleNamespace(returncode=128 + 9),
    )
    assert (await BubblewrapSandbox._taken_by(box) is not None) is lost


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENODEV])
def test_a_group_that_goes_away_holds_nothing(code: int) -> None:
    def gone() -> int:
        raise of(code)

    groups: Any = SimpleNamespace(used=gone)
    assert held._used(groups) == 0
