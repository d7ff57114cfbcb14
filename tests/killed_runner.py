"""Kill a runner with eight trials in flight, start another, and find nothing of the first, and all that is foreign.

The moments are drawn once and for all, evenly over the time of three waves of trials, so they fall into every phase.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lego_rl.rollout.journal import read_journal
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.state import State
from tests import runner_nursery
from tests.leftovers import Killed, entries, foreign

SEED = 4
WAVES = 3 * runner_nursery.IN_FLIGHT
ENDLESS = 1000
"""Trials that no runner comes to the end of."""


class Elsewhere:
    """What sandboxes have besides processes and files: nothing, where the machine itself isolates them."""

    def everything(self) -> frozenset[str]:
        """All that there is, whosever it is."""
        return frozenset()

    @contextmanager
    def foreign(self, state: State) -> Iterator[None]:
        """Look-alikes that are not ours to remove."""
        yield


NOWHERE = Elsewhere()


class Runners:
    """The program of `runner_nursery`."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, state: State) -> None:
        self._process = process
        self.folder = folder
        self.state = state

    def say(self, line: str) -> int:
        """Have a runner forked; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self.hear())

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def whole(self, line: str) -> float:
        """One that lives to its end; seconds."""
        began = time.monotonic()
        self.say(line)
        assert self.hear() == "0"
        return time.monotonic() - began

    def killed(self, line: str, after: float) -> Killed:
        """One that is killed."""
        known = entries(self.state)
        pid = self.say(line)
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        assert self.hear() == str(signal.SIGKILL.value), "it was still at work"
        return Killed(pid, self.state, self.folder / "temporary", known, runner_nursery.MARKER)


@contextmanager
def runners(folder: Path, settings: SandboxSettings) -> Iterator[Runners]:
    argv = [sys.executable, runner_nursery.__file__, str(folder), settings.model_dump_json()]
    assert settings.state is not None
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        found = Runners(process, folder, State(settings.state))
        assert found.hear() == "ready"
        yield found
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


def trials_of(folder: Path) -> tuple[int, int]:
    """How often a trial was begun, and how many were scored."""
    kinds = [entry.kind for entry in read_journal(folder / "run" / "journal")]
    return kinds.count("trial-started"), kinds.count("trial-scored")


def killed_at_random(folder: Path, moments: int, elsewhere: Elsewhere = NOWHERE, **settings: object) -> None:
    """Kill a runner at each moment, start another, and look for what is left.

    Args:
        folder: For everything.
        moments: How many.
        elsewhere: Where else its sandboxes are.
        settings: What is said of sandboxes.
    """
    draw = random.Random(SEED)
    own = SandboxSettings.model_validate({"state": folder / "state-of-killed", "grading_sec": 30.0, **settings})
    with runners(folder, own) as runner:
        runner.whole(f"first {WAVES}")
        assert trials_of(folder)[1] == WAVES, "the runner works"
        seconds = runner.whole(f"second {WAVES}")
        busy = 0
        with foreign(runner.state), elsewhere.foreign(runner.state):
            there = elsewhere.everything()
            for moment in range(moments):
                begun, scored = trials_of(folder)
                killed = runner.killed(f"moment-{moment} {ENDLESS}", draw.uniform(0, seconds))
                in_flight = (trials_of(folder)[0] - begun) - (trials_of(folder)[1] - scored)
                busy += in_flight == runner_nursery.IN_FLIGHT
                runner.whole("start 0")
                assert killed.left() == [], f"moment {moment}, with {in_flight} trials in flight"
                assert elsewhere.everything() == there, f"moment {moment}, with {in_flight} trials in flight"
                assert [*(folder / "run" / "scratch").iterdir()] == []
                assert not [*(folder / "run" / "trials").glob(".*")], "half-written records"
        assert busy > moments / 2, "it was killed at work"
