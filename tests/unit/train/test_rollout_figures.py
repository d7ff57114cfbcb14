"""A batch's figures are sums and means over its trials; a share of nothing is no number."""

from pathlib import Path

import pytest

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Accounting
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.outcome import EngineSeconds, Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.train.rollout_figures import rollout_figures

SPEC = TrialSpec(Path("tasks/one"), "train.step-0000", 0, 2, 7, 1.0, Budget(), HarnessChoice("claude-code"))


def record(reward: Reward | None, ended: Ended, accounting: Accounting, seconds: PhaseSeconds) -> TrialRecord:
    return TrialRecord(SPEC, Outcome(reward, ended, None, ""), None, seconds, accounting, tries=2)


def test_a_batch() -> None:
    figures = rollout_figures(
        [
            record(
                1,
                Ended.FINISHED,
                Accounting(
                    calls=4, sampled_tokens=80, trainable_tokens=80, tool_calls=3, tool_parse_faults=1, truncated=2
                ),
                PhaseSeconds(0.1, 3.0, 0.5, 4.0, EngineSeconds(0.5, 0.5, 1.0)),
            ),
            record(
                None,
                Ended.SANDBOX_START,
                Accounting(calls=2, sampled_tokens=20, trainable_tokens=10),
                PhaseSeconds(0.3, 1.0, 0.0, 2.0),
            ),
        ]
    )
    assert figures == pytest.approx({
        "rollout/trials": 2, "rollout/solved": 1, "rollout/counted": 1, "rollout/solve_rate": 1.0, "rollout/calls": 3.0,
        "rollout/sampled_tokens": 100, "rollout/delivered_fraction": 0.9, "rollout/tool_calls": 3,
        "rollout/tool_parse_faults": 1, "rollout/truncated": 2,
        "rollout/tries": 4, f"ended/{Ended.FINISHED.value}": 1, f"ended/{Ended.SANDBOX_START.value}": 1,
        "seconds/setup": 0.2, "seconds/harness": 1.0, "seconds/engine": 1.0, "seconds/grading": 0.25,
        "seconds/trial": 3.0,
    })  # fmt: skip


def test_shares_of_nothing() -> None:
    figures = rollout_figures([record(None, Ended.SANDBOX_START, Accounting(), PhaseSeconds())])
    assert (figures["rollout/delivered_fraction"], figures["rollout/solve_rate"]) == (None, None)
