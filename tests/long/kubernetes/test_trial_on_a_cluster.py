"""A stock Harbor trial whose sandboxes are pods."""

from pathlib import Path

import pytest
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig, VerifierConfig
from harbor.trial.trial import Trial
from kube_policies import PolicyAgent

from lego_rl.sandbox.codec import patch_from_json, verdict_from_json
from lego_rl.sandbox.settings import SandboxSettings

FIX = "sed -i 's/a - b/a + b/' calc/core.py"


@pytest.mark.parametrize(("script", "reward"), [(FIX, 1), ("kill -9 -1", 0)])
async def test_a_trial_gets_its_reward(
    task_dir: Path, settings: SandboxSettings, policies: PolicyAgent, tmp_path: Path, script: str, reward: int
) -> None:
    config = TrialConfig(
        task=TaskConfig(path=task_dir),
        trials_dir=tmp_path,
        trial_name="trial",
        agent=AgentConfig(import_path="harbor_agents:ScriptAgent", kwargs={"script": script}),
        environment=EnvironmentConfig(
            import_path="lego_rl.sandbox.environment:SealedEnvironment",
            kwargs={"sandbox": {**settings.model_dump(mode="json"), "disk_mb": 24, "scratch_mb": 16}},
        ),
        verifier=VerifierConfig(import_path="lego_rl.sandbox.verifier:FreshVerifier"),
    )
    result = await (await Trial.create(config)).run()
    assert result.exception_info is None
    assert result.verifier_result.rewards == {"reward": reward}
    folder = tmp_path / "trial" / "verifier"
    assert verdict_from_json((folder / "verdict.json").read_text()).reward == reward
    changes = patch_from_json((folder / "patch.json").read_text()).changes
    assert [change.path for change in changes] == (["calc/core.py"] if reward else [])
