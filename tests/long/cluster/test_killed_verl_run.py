"""A run on verl that is killed in its second step, and begun again by the same line (training law 5)."""

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.cluster.real_run import STEPS, RealRun, command_of, finished, prepared
from tests.integration.cluster.verl_process import ray_folder

pytestmark = pytest.mark.timeout(1800)
SETTINGS = ("cluster.mode.kind=sync", "cluster.checkpoint_every=1", "run.keep_checkpoints=3")


def killed_once(folder: Path) -> RealRun:
    """Kill everything of the run once its second step has its batch, and start it again."""
    with ray_folder() as ray:
        run = prepared(folder)
        line = command_of(run, SETTINGS, f"+ray_kwargs.ray_init._temp_dir={ray}")
        with (folder / "killed.log").open("wb") as log:
            process = subprocess.Popen(
                line, cwd=folder, env=run.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            until = time.monotonic() + 600
            while not (folder / "batches" / "2.json").exists():
                assert process.poll() is None, (folder / "killed.log").read_text()[-3_000:]
                assert time.monotonic() < until, "no second step"
                time.sleep(0.5)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _kill_ray(ray)
    first = (folder / "batches" / "2.json").rename(folder / "killed-2.json")
    assert first.exists()
    with ray_folder() as ray:
        line = command_of(run, SETTINGS, f"+ray_kwargs.ray_init._temp_dir={ray}")
        return finished(run, line, timeout=900, environment=run.environment)


def _kill_ray(folder: Path) -> None:
    """End what Ray started for the run: all of it has Ray's folder in its command line."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line and int(process.name) != os.getpid():
            os.kill(int(process.name), signal.SIGKILL)


def test_no_step_is_missing_and_no_trial_is_trained_twice(tmp_path: Path) -> None:
    ran = killed_once(tmp_path)
    assert ran.verl.status == 0, ran.verl.output[-4_000:]
    assert [batch.step for batch in ran.batches] == [*range(1, STEPS + 1)]
    trained = [trial for batch in ran.batches for trial in {row["extra"]["trial"] for row in batch.rows}]
    assert max(Counter(trained).values()) == 1, "a trial is in one batch"
    assert ran.prove_rows() == sum(len(batch.rows) for batch in ran.batches)
