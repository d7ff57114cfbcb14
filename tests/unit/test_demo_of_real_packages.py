"""The demo on tasks of real packages: what is fetched is pinned, and its figures are what was graded."""

import json
import re
from pathlib import Path

import pytest

from lego_rl.tasks.index.outcomes import Outcomes, TrialOutcome
from scripts.demo_real import PACKAGES, figures_of


def test_what_is_fetched_is_pinned_by_its_content() -> None:
    digests = [digest for package in PACKAGES for digest in package.releases.values()]
    assert len(set(digests)) == len(digests)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    for package in PACKAGES:
        assert package.inject + package.mine
        assert not package.mine or len(package.releases) > 1


@pytest.mark.parametrize("solved", [0, 3])
def test_figures_are_what_was_graded(solved: int, tmp_path: Path) -> None:
    attempts = [{"variant": variant, "reward": int(variant == "gold")} for variant in ("empty", "gold") for _ in "123"]
    stale = {"task": "one", "attempts": [{"variant": "gold", "reward": 0}]}
    lines = [stale, {"task": "one", "attempts": attempts}, {"task": "two", "attempts": attempts}]
    (tmp_path / "validation.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    rewards = [1] * solved + [0] * (4 - solved) + [None]
    Outcomes.of(
        [
            TrialOutcome("one", "small@1", "harness 1", "rollout", n, n, f"t{n}", reward, "finished")
            for n, reward in enumerate(rewards)
        ]
    ).write(tmp_path / "outcomes.parquet")
    assert figures_of(tmp_path / "validation.jsonl", tmp_path / "outcomes.parquet") == {
        "empty patch": {"tries": 6, "solved": 0, "unknown": 0},
        "gold patch": {"tries": 6, "solved": 6, "unknown": 0},
        "policy": {"tries": 4, "solved": solved, "unknown": 1},
    }
