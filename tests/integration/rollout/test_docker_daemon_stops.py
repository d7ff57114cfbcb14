"""A daemon that stops answering in the middle of a trial: the trial ends in bounded time, in a row that masks it.

On a busy machine it cannot be told from one that is slow, as agents of other trials can make it, and masks nothing.

The daemon is one of this test's own, without a network, so that nobody else's containers wait with it.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lego_rl.rollout.faults import FAULT_TABLE, Ended
from lego_rl.rollout.trial import run_trial
from lego_rl.sandbox import grading
from lego_rl.sandbox.docker import engine as engine_module
from lego_rl.sandbox.docker.engine import Engine
from lego_rl.sandbox.environments import provider_of
from lego_rl.sandbox.pressure import Pressure
from lego_rl.sandbox.settings import SandboxSettings
from tests.runner_nursery import Runner

pytestmark = pytest.mark.docker

START_SECONDS = 30.0
PATIENCE = 5.0
"""In place of the minute that a call may take."""
CALLS_AFTERWARDS = 9
"""Calls, at most, that one after the other wait for it: how the container ended, three starts of another, removals."""
BUSY_SECONDS = 20.0
"""What everything else may take on a busy machine."""


@dataclass(frozen=True)
class Daemon:
    """One of the test's own."""

    process: "subprocess.Popen[bytes]"
    engine: Engine

    def first(self) -> int:
        """The first process of its only container that runs; 0 where none does."""
        running = [found for found in self.engine.containers({}) if found.state == "running"]
        return self.engine.container(running[0].id).state.pid if running else 0

    def stop_answering(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)


@contextmanager
def daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="lego-d-"))  # a socket's path is short
    listens = folder / "s"
    argv = ["dockerd", f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid",
            f"--host=unix://{listens}", "--bridge=none", "--iptables=false", "--shutdown-timeout=5"]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while b"API listen on" not in (said := (folder / "log").read_bytes()):
                assert process.poll() is None and time.monotonic() < end, said.decode(errors="replace")[-2000:]
                time.sleep(0.1)
            yield Daemon(process, Engine(listens))
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(60)
    shutil.rmtree(folder)


class AtSecondTurn:
    """Something that happens to a daemon while the agent of the only trial is at work."""

    def __init__(self, theirs: Daemon, happens: Callable[[Daemon, int], None]) -> None:
        self._theirs = theirs
        self._happens = happens
        self._turns = 0
        self.since = 0.0

    def __call__(self) -> None:
        self._turns += 1
        if self._turns == 2:
            self._happens(self._theirs, self._theirs.first())
            self.since = time.monotonic()


def stopped(theirs: Daemon, _: int) -> None:
    theirs.stop_answering()


def stopped_and_killed(theirs: Daemon, first: int) -> None:
    theirs.stop_answering()
    os.kill(first, signal.SIGKILL)


@pytest.mark.parametrize(
    ("happens", "quiet", "ended"),
    [
        (stopped, True, Ended.GRADING_START),
        (stopped, False, Ended.VERIFIER_CRASHED),
        (stopped_and_killed, False, Ended.RUNTIME_LOST),
    ],
)
async def test_the_trial_ends(
    happens: Callable[[Daemon, int], None], quiet: bool, ended: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pressure, "was_low", lambda _: quiet)
    monkeypatch.setattr(grading, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(grading, "START_PAUSES", (0.1, 0.1))
    with daemon() as theirs:
        docker = {"host": f"unix://{theirs.engine.socket}"}
        settings = {"environment": "docker", "docker": docker, "state": tmp_path / "state"}
        runner = Runner.make(tmp_path, SandboxSettings.model_validate(settings))
        (spec,) = runner.specs("stopped", 1)
        happening = AtSecondTurn(theirs, happens)
        await asyncio.to_thread(
            provider_of(runner.sandbox).prepare, runner.folder / "task" / "environment", workdir="/app"
        )
        monkeypatch.setattr(engine_module, "CALL_SECONDS", PATIENCE)
        record = await run_trial(spec, runner.runtime(happening))
        seconds = time.monotonic() - happening.since
    assert record.outcome.ended is ended, record.outcome.detail
    assert (record.outcome.reward is None) is FAULT_TABLE[ended].is_masked
    assert seconds < CALLS_AFTERWARDS * PATIENCE + BUSY_SECONDS
