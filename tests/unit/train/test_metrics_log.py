"""One row a step, whatever killed the run."""

import json
from pathlib import Path

import pytest

from lego_rl.errors import RunError
from lego_rl.rollout.metrics_file import read_rows
from lego_rl.train.metrics_log import MetricsLog


def test_a_resumed_run_drops_the_rows_of_unfinished_steps(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0) as log:
        for step in range(3):
            log.write(step, {"reward/mean": step / 10, "gate/pearson": float("nan"), "harness": "x"})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rew')
    with MetricsLog(tmp_path, 2) as log:
        log.write(2, {"reward/mean": 0.9})
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert rows[2]["reward/mean"] == 0.9
    assert rows[0]["gate/pearson"] is None
    assert all(json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines())


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0) as log:
        log.write(0, {"reward/mean": 0.1})
        (tmp_path / "metrics.jsonl").unlink()
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        with pytest.raises(RunError, match=r"metrics of step 1.*free disk space"):
            log.write(1, {"reward/mean": 0.2})


def test_tensorboard_has_the_same_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsLog(tmp_path, 0) as log:
        log.write(0, {"reward/mean": 0.25})
        log.write(1, {"reward/mean": 0.5})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, round(e.value, 6)) for e in events.Scalars("reward/mean")] == [(0, 0.25), (1, 0.5)]
