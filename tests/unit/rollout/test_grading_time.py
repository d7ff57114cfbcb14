"""How long a task's tests may take: what the task says, less only where the recipe caps it, and Harbor never first."""

import re
from pathlib import Path

import pytest
from harbor.trial.trial import Trial

from lego_rl.gateway.budget import Budget
from lego_rl.rollout.harbor_trial import trial_config
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.sandbox.grading_run import SHARE_OF_TIMEOUT
from lego_rl.sandbox.settings import SandboxSettings
from lego_rl.sandbox.verifier import FreshVerifier
from lego_rl.tasks.build import write_task
from lego_rl.tasks.generate import families_of, generate


async def trial_of(folder: Path, task_sec: float, cap: float | None) -> Trial:
    """A trial of a task that gives its verifier `task_sec`, under a recipe that caps it."""
    task = write_task(generate(0, families_of("train")[0].name, 0, "train"), folder)
    text = (task / "task.toml").read_text()
    (task / "task.toml").write_text(re.sub(r"(\[verifier\]\ntimeout_sec = ).*", rf"\g<1>{task_sec}", text))
    spec = TrialSpec(
        task=task,
        label="test",
        attempt=0,
        attempts=1,
        seed=0,
        temperature=1.0,
        budget=Budget(),
        harness=HarnessChoice("claude-code"),
    )
    sandbox = SandboxSettings(state=folder / "state", grading_sec=cap)
    config = trial_config(spec, folder, sandbox, scratch=folder / "scratch", key="no agent runs", process_sec=60.0)
    config.agent.import_path, config.agent.kwargs = None, {}
    config.agent.name = "oracle"
    return await Trial.create(config)


def verifier(trial: Trial, **kwargs: float | None) -> FreshVerifier:
    return FreshVerifier(task=trial.task, trial_paths=trial.paths, environment=trial.agent_environment, **kwargs)


@pytest.mark.parametrize(
    ("task_sec", "cap", "allowed"), [(1800.0, None, 1800.0), (1800.0, 100.0, 100.0), (20.0, 100.0, 20.0)]
)
async def test_the_task_decides_and_the_recipe_caps(
    tmp_path: Path, task_sec: float, cap: float | None, allowed: float
) -> None:
    trial = await trial_of(tmp_path, task_sec, cap)
    assert verifier(trial, **trial.config.verifier.kwargs).grading_sec == allowed
    assert trial.verifier_timeout_sec >= 2 * allowed


async def test_stock_harbor_leaves_time_around_the_tests(tmp_path: Path) -> None:
    trial = await trial_of(tmp_path, 1800.0, None)
    assert verifier(trial).grading_sec == SHARE_OF_TIMEOUT * 1800.0
