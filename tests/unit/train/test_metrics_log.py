"""One row a step, whatever killed the run."""

import json
from collections.abc import Callable
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


DAMAGE = {
    "a line in the middle": lambda lines: [lines[0], b"{" + lines[1], lines[2]],
    "the first byte": lambda lines: [b"}" + lines[0][1:], *lines[1:]],
    "no object": lambda lines: [b"[1]\n", *lines[1:]],
    "no step": lambda lines: [b"{}\n", *lines[1:]],
    "no text": lambda lines: [b"\xff\n", *lines[1:]],
    "a row is gone": lambda lines: [lines[0], lines[2]],
    "all are gone": lambda lines: [],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_said_and_left_as_it_is(tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]) -> None:
    with MetricsLog(tmp_path, 0) as log:
        for step in range(3):
            log.write(step, {"reward/mean": step / 10})
    file = tmp_path / "metrics.jsonl"
    left = b"".join(damage(file.read_bytes().splitlines(keepends=True)))
    file.write_bytes(left)
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        MetricsLog(tmp_path, 3)
    assert file.read_bytes() == left


def test_rows_of_unfinished_steps_stay_until_there_is_a_new_one(tmp_path: Path) -> None:
    with MetricsLog(tmp_path, 0) as log:
        log.write(0, {"reward/mean": 0.1})
        log.write(1, {"reward/mean": 0.2})
    with MetricsLog(tmp_path, 1):
        assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [0, 1]


def test_what_stands_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("")
    with pytest.raises(RunError, match="tensorboard"):
        MetricsLog(tmp_path, 0)
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        MetricsLog(tmp_path, 0)


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
