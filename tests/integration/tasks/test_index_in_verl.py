"""An index drives stock verl: its dataset loads every row, with what an agent loop needs to find the task."""

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from lego_rl.tasks.build import build_pool
from lego_rl.tasks.index.build import build_index

ROOT = Path(__file__).parents[3]
VERL_PYTHON = ROOT / ".cache" / "verl" / "bin" / "python"

# verl's imports alone are some 15 s of CPU: minutes where cores are short.
pytestmark = pytest.mark.timeout(900)


def test_every_row_is_loaded(tmp_path: Path) -> None:
    assert VERL_PYTHON.exists(), "stock verl is not installed: run make setup-verl"
    build_pool(tmp_path / "pool", sizes={"train": 1, "heldout": 1, "unseen": 1})
    index, _ = build_index([tmp_path / "pool"], data_source="made")
    index.write(tmp_path / "index.parquet")
    command = [VERL_PYTHON, Path(__file__).with_name("verl_rows.py"), tmp_path / "index.parquet"]
    policy = str(files("lego_rl.policies") / "demo")
    environment = os.environ | {"HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [*command, policy, tmp_path / "cache"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["extra_info"]["instance_id"] for row in rows] == index.ids
    for row, path in zip(rows, index.paths, strict=True):
        info = row["extra_info"]
        assert (tmp_path / info["harbor_task_path"]).resolve() == path
        assert row["reward_model"] == {"style": "lego-rl", "ground_truth": info["instance_id"]}
        assert row["raw_prompt"] == [{"role": "user", "content": f"Lego-RL task {info['instance_id']}"}]
        assert row["data_source"] == info["data_source"] == "made"
