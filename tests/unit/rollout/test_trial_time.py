"""Time limits of a trial: the session ends first, so that a harness can end by itself; its process ends for certain."""

from dataclasses import replace
from pathlib import Path

import pytest

from lego_rl.engine.scripted import Reply, ScriptedEngine
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.harness import registry
from lego_rl.harness.base import HarnessBundle
from lego_rl.rollout.agent import AROUND_THE_SESSION_SECONDS, LiveTrial
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.trial import budget_of
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import families_of, generate

POLICY = Path(__file__).parents[3] / "src" / "lego_rl" / "policies" / "demo"
TASK_SECONDS = 300.0
"""What a generated task gives its agent."""


def spec(task: Path, seconds: float) -> TrialSpec:
    return TrialSpec(
        task=task,
        label="test",
        attempt=0,
        attempts=1,
        seed=0,
        temperature=1.0,
        budget=Budget(turns=3, wall_clock_sec=seconds),
        harness=HarnessChoice("claude-code"),
    )


@pytest.mark.parametrize(("recipe", "effective"), [(60.0, 60.0), (3_600.0, TASK_SECONDS)])
def test_the_session_has_the_smaller_time_and_the_process_more(tmp_path: Path, recipe: float, effective: float) -> None:
    task = write_task(generate(0, families_of("train")[0].name, 0, "train"), tmp_path)
    budget = budget_of(spec(task, recipe))
    assert budget == replace(spec(task, recipe).budget, wall_clock_sec=effective)
    gateway = Gateway(
        ScriptedEngine(lambda prompt, sampling: Reply([1])), ChatTemplate.load(POLICY), tool_call_parser("qwen3_coder")
    )
    bundle = HarnessBundle("claude-code", "1", "", Path("/nowhere"), 0, "")
    session = gateway.open(budget, temperature=1.0)
    live = LiveTrial(gateway, session, registry.make("claude-code"), bundle, "policy")
    assert live.process_sec == session.budget.wall_clock_sec + AROUND_THE_SESSION_SECONDS
    assert AROUND_THE_SESSION_SECONDS > 0


def test_a_task_that_cannot_be_read_leaves_the_budget_to_the_trial_that_says_so(tmp_path: Path) -> None:
    assert budget_of(spec(tmp_path / "none", 60.0)).wall_clock_sec == 60.0
