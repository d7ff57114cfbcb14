"""Killed before any operation on the system, in any phase: the next start finds everything that is left.

The phases are those of a trial: reaping, the toolchain and the programs where they are not made yet, the image, the
sandbox's folder and control groups, its start, seal, work, death, snapshot, the fresh grading start, its end.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import killed_kit
import pytest

from lego_rl.sandbox.state import State
from tests.leftovers import Killed, entries, foreign

POINTS = 24
"""Operations before which the process is killed, evenly over all of them."""


class Nursery:
    """The program of `killed_kit`."""

    def __init__(self, process: "subprocess.Popen[str]", state: State, temporary: Path) -> None:
        self._process = process
        self._state = state
        self._temporary = temporary
        self._known = entries(state)

    def live(self, fatal: int) -> tuple[Killed, int]:
        """One life, and how many operations it had: 0 where it was killed before the one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{fatal} {self._temporary}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        return Killed(pid, self._state, self._temporary, self._known, killed_kit.MARKER), int(
            self._process.stdout.readline()
        )


@contextmanager
def nursery(state: State, task: Path, temporary: Path) -> Iterator[Nursery]:
    temporary.mkdir()
    argv = [sys.executable, killed_kit.__file__, str(state.root), str(task)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process, state, temporary)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


def test_nothing_is_left_whatever_it_was_doing(task_dir: Path, tmp_path: Path) -> None:
    state = State(tmp_path / "state-of-killed")
    with foreign(state), nursery(state, task_dir, tmp_path / "temporary") as lives:
        whole, first = lives.live(0)
        assert whole.left() == [], "a life that is not cut short leaves nothing"
        _, operations = lives.live(0)
        assert 100 < operations < first, "the toolchain and the programs are there the second time"
        for point in range(1, POINTS + 1):
            fatal = point * operations // POINTS
            killed, seen = lives.live(fatal)
            assert seen == 0 or fatal > operations - 20, "a few operations more or less are the scheduler's"
            State(state.root).reap_stale()
            assert killed.left() == [], f"killed before operation {fatal} of {operations}"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_nothing_is_left_of_a_first_start(share: float, task_dir: Path, tmp_path: Path) -> None:
    """Most of its operations make the toolchain."""
    state = State(tmp_path / "state-of-killed")
    with nursery(state, task_dir, tmp_path / "temporary") as lives:
        killed, seen = lives.live(int(share * 1500))
        assert seen == 0
        State(state.root).reap_stale()
        assert killed.left() == []
        _, operations = lives.live(0)
        assert operations > 0, "and the next one works"
