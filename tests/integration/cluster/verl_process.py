"""Starts stock verl, ``python -m verl.trainer.main_ppo``, on this machine: two cores, no GPU, a Ray of its own."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".cache" / "verl" / "bin" / "python"
MAIN = (str(PYTHON), "-m", "verl.trainer.main_ppo")


@dataclass(frozen=True)
class VerlRun:
    """A run of verl that has ended.

    Attributes:
        status: Its exit status.
        output: What it and its workers wrote.
        metrics: One record a step.
    """

    status: int
    output: str
    metrics: list[dict[str, Any]]


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A folder for Ray, whose sockets need a short path."""
    folder = Path(tempfile.mkdtemp(prefix="lego-ray-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """What verl and Ray are started with."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT / "src")]),
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **extra,
    }


def run(folder: Path, line: Sequence[str], metrics: Path, *, timeout: float, env: Mapping[str, str]) -> VerlRun:
    """Run verl to its end.

    Args:
        folder: Where it works.
        line: What starts it: `MAIN` and Hydra's overrides.
        metrics: Where it is told to write its metrics.
        timeout: Seconds; then it is interrupted, and whoever it started with it.
        env: Its environment, such as `environment` makes.
    """
    log = folder / "verl.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            line,
            cwd=folder,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            process.wait(timeout)
        except BaseException:
            process.send_signal(signal.SIGINT)  # so that it ends its Ray
            try:
                process.wait(60)
            finally:
                process.kill()
            raise
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    output = log.read_text(encoding="utf-8", errors="replace")
    return VerlRun(process.returncode, output, [json.loads(line)["data"] for line in lines])
