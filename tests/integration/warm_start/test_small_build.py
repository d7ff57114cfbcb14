"""A small build of the warm start, through all its stages and the real harness: each stage teaches what it should."""

from pathlib import Path
from statistics import mean

import pytest

from lego_rl.engine.policy_dir import inspect_policy
from warm_start.build import Build
from warm_start.settings import SMALL


@pytest.mark.timeout(600)
def test_every_stage_teaches_what_it_should(tmp_path: Path) -> None:
    build = Build(SMALL, tmp_path)
    policy = build.run()

    phrases = build.stages.figures("phrases")
    assert float(phrases[0]["sft/accuracy"] or 0) < 0.05
    assert mean(float(row["sft/accuracy"] or 0) for row in phrases[-5:]) > 0.9, "copying is not learned"
    for stage, fall in (("lookups", 0.4), ("prompted", 0.9), ("sft", 0.9)):
        losses = [float(row["sft/loss"] or 0) for row in build.stages.figures(stage)]
        assert mean(losses[-2:]) < fall * mean(losses[:2]), f"{stage} does not learn"

    facts = inspect_policy(policy)
    assert facts.parameters <= 2_400_000
    assert (policy / "model.safetensors").stat().st_size <= 5_000_000

    before = (policy / "model.safetensors").stat().st_mtime_ns
    assert build.run() == policy
    assert (policy / "model.safetensors").stat().st_mtime_ns == before, "a finished build is not done again"
