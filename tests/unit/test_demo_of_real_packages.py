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
    attempts = [
        {"variant": variant, "reward": int(variant == "gold"), "ended": "completed"}
        for variant in ("empty", "gold")
        for _ in "123"
    ]
    slow = [*attempts[:5], {"variant": "gold", "reward": 0, "ended": "timed_out"}]
    stale = {"task": "one", "times": 3, "attempts": attempts[:1]}
    made = {"one": attempts, "two": attempts, "slow": slow, "no sandbox": []}
    lines = [stale, *({"task": task, "times": 3, "attempts": tries} for task, tries in made.items())]
    (tmp_path / "validation.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    rewards = [1] * solved + [0] * (4 - solved) + [None]
    Outcomes.of(
        [
            TrialOutcome("one", "small@1", "harness 1", "rollout", n, n, f"t{n}", reward, "finished")
            for n, reward in enumerate(rewards)
        ]
    ).write(tmp_path / "outcomes.parquet")
    assert figures_of(tmp_path / "validation.jsonl", tmp_path / "outcomes.parquet") == {
        "empty patch": {"tries": 9, "solved": 0, "unknown": 3},
        "gold patch": {"tries": 8, "solved": 8, "unknown": 4},
        "policy": {"tries": 4, "solved": solved, "unknown": 1},
    }
