"""Training runs against a real server: real harness, real sandboxes, streaming; and the gate where a reload failed."""

import json
from pathlib import Path

import pytest
from vllm_kit import Server, alternating

from lego_rl.commands.execute import execute
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.config.recipe import Recipe
from lego_rl.engine.vllm.engine import VllmEngine
from lego_rl.engine.vllm.replica import Replica
from lego_rl.errors import FidelityError
from lego_rl.train.served import folder_digest

pytestmark = pytest.mark.timeout(900)
STEPS = 2
RECIPE = """
[run]
dir = "{run}"
steps = {steps}
[policy]
path = "{policy}"
[harness]
name = "claude-code"
options = {{ bare = true }}
[sandbox]
state = "{state}"
[engine]
kind = "vllm"
urls = ["{url}"]
dtype = "float32"
[budget]
turns = 2
context_tokens = 6144
output_tokens = 24
wall_clock_sec = 120
[rollout]
tasks_per_step = 2
group_size = 2
concurrency = 2
[train.optimizer]
lr = 1e-3
[train.gate]
min_pearson_logprobs = 0.999
"""


def recipe(server: Server, folder: Path) -> Recipe:
    path = folder / "recipe.toml"
    text = RECIPE.format(run=folder / "run", steps=STEPS, policy=server.policy, state=folder / "state", url=server.url)
    path.write_text(text)
    return read_recipe(path, [])


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def test_a_run_trains_and_its_next_step_samples_from_what_it_trained(float32: Server, tmp_path: Path) -> None:
    resolved = recipe(float32, tmp_path)
    execute(resolved, check_recipe(resolved), rewards=alternating)
    steps = rows(tmp_path)
    for number, row in enumerate(steps):
        print(
            f"\nclaude-code through vLLM, step {number}: {row['audit/tokens']} tokens reconciled · Pearson "
            f"{row['fidelity/pearson_logprobs']:.10f} · mean |Δ| {row['fidelity/mean_abs']:.3g} · grad norm "
            f"{row['train/grad_norm']:.3g} · delivered {row['rollout/delivered_fraction']:.3f}"
        )
        assert row["fidelity/pearson_logprobs"] >= 0.999
        assert row["fidelity/route_coverage"] == 1.0
        assert row["fidelity/weight_version"] == number
        assert row["rollout/delivered_fraction"] == 1.0
        assert row["audit/tokens"] == row["fidelity/tokens"] > 0
        assert row["train/grad_norm"] > 0
    assert len(steps) == STEPS


async def stock_reload(self: VllmEngine, replica: Replica, folder: Path, version: int) -> str:
    """What a user of vLLM's own endpoint does; it answers 200."""
    await replica.post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})
    await replica.post("/update_weight_version", {"new_version": str(version)})
    await replica.post("/reset_prefix_cache", {})
    return folder_digest(folder, self.served.dtype)


def test_the_gate_stops_a_run_whose_reload_went_silently_wrong(
    float32: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = recipe(float32, tmp_path)
    with VllmEngine([float32.url]) as engine:
        engine.load_now(float32.policy, 0)
    monkeypatch.setattr(VllmEngine, "_load_one", stock_reload)
    with pytest.raises(FidelityError) as stopped:
        execute(resolved, check_recipe(resolved), rewards=alternating)
    print(f"\nthe gate: {stopped.value}")
    assert len(rows(tmp_path)) == 1, "the step before the reload is finished, the one after it is not"
    assert stopped.value.reason in {"pearson", "weights"}, "it is no fault of the prompt's"
