"""Starts stock verl, ``python -m verl.trainer.main_ppo``, on this machine: two cores, no GPU, a Ray of its own."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".cache" / "verl" / "bin" / "python"

CPU = (
    "trainer.device=cpu",
    "actor_rollout_ref.rollout.name=lego_cpu",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile=False",
    "+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "actor_rollout_ref.rollout.free_cache_engine=False",
    "data.dataloader_num_workers=0",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
)
"""What a machine without a GPU needs beside a recipe's overrides."""


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


def environment(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """What verl and Ray are started with."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT / "src")]),
        "VERL_PLATFORM": "cpu",
        "VERL_FILE_LOGGER_PATH": str(folder / "verl.jsonl"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **extra,
    }


def train(folder: Path, overrides: Iterable[str], *, timeout: float, **extra: str) -> VerlRun:
    """Run verl to its end.

    Args:
        folder: Where it works.
        overrides: Hydra's, `CPU` not among them.
        timeout: Seconds.
        extra: Environment.
    """
    with ray_folder() as ray:
        own = (
            "trainer.logger=[console,file]",
            "ray_kwargs.ray_init.num_cpus=32",
            "+ray_kwargs.ray_init.num_gpus=4",
            "+ray_kwargs.ray_init.include_dashboard=False",
            f"+ray_kwargs.ray_init._temp_dir={ray}",
        )
        return run(folder, [*overrides, *CPU, *own], timeout=timeout, **extra)


def run(folder: Path, overrides: Iterable[str], *, timeout: float, **extra: str) -> VerlRun:
    """Run verl to its end with exactly these overrides."""
    log = folder / "verl.log"
    env = environment(folder, extra)
    with log.open("wb") as out:
        done = subprocess.run(
            [PYTHON, "-m", "verl.trainer.main_ppo", *overrides],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )
    metrics = Path(env["VERL_FILE_LOGGER_PATH"])
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    return VerlRun(
        done.returncode, log.read_text(encoding="utf-8", errors="replace"), [json.loads(line) for line in lines]
    )
