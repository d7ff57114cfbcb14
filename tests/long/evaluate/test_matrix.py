"""Trained in one harness, evaluated in every one: a policy has to be trained in the harness that it will meet.

One warm start with demonstrations in all three harnesses; from it a short run in each; every policy is evaluated in
every harness. Allow two hours on two idle cores. ``make test-long RUNS=DIR`` keeps everything in DIR: what was stopped
goes on, what is finished is only measured.
"""

import json
from pathlib import Path

import pytest
import tomli_w
from experiments import Experiments

from lego_rl.commands.eval_run import read_config, run_config
from lego_rl.commands.execute import execute
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.policies import policy_directory
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.rollout.spec import Shard
from warm_start.extend import OPENCODE_TOO, Extension
from warm_start.settings import OPENCODE_OPTIONS, OPENHANDS_OPTIONS

pytestmark = [pytest.mark.timeout(0), pytest.mark.filterwarnings("default")]
ROOT = Path(__file__).parents[3]
OPTIONS = {"claude-code": {"bare": True}, "openhands-sdk": OPENHANDS_OPTIONS, "opencode": OPENCODE_OPTIONS}
STEPS = 4
TASKS, ATTEMPTS = 32, 2
LEAST = 64
"""Trials a cell."""


def trained(harness: str, start: Path, folder: Path) -> Path:
    """The policy of a short run in a harness."""
    table = {
        "run": {"dir": str(folder), "steps": STEPS},
        "policy": {"path": str(start)},
        "harness": {"name": harness, "options": OPTIONS[harness]},
        "budget": {"turns": 6, "context_tokens": 8192, "output_tokens": 160, "wall_clock_sec": 120},
        "train": {"threads": 2, "optimizer": {"lr": 1e-4, "weight_decay": 0.0}},
    }
    path = folder.with_suffix(".toml")
    path.write_text(tomli_w.dumps(table))
    recipe = read(Recipe, path)
    execute(recipe, check_recipe(recipe))
    return checkpoints_in(folder / "checkpoints")[-1][1] / "policy"


def test_each_policy_is_evaluated_in_each_harness(experiments: Experiments, capsys: pytest.CaptureFixture[str]) -> None:
    root = experiments.root / "matrix"
    start = Extension(policy_directory("builtin:demo"), OPENCODE_TOO, root / "warm-start").run()
    policies = {"warm-start": start}
    policies |= {f"in-{harness}": trained(harness, start, root / harness) for harness in OPTIONS}
    table = {
        "evaluation": {"dir": str(root / "evaluation"), "attempts": ATTEMPTS},
        "protocol": {"name": "demo"},
        "tasks": {"split": "heldout", "count": TASKS},
        "models": [{"name": name, "path": str(path)} for name, path in policies.items()],
        "harnesses": [{"name": name, "options": options} for name, options in OPTIONS.items()],
    }
    path = root / "evaluation.toml"
    path.write_text(tomli_w.dumps(table))
    assert run_config(read_config(path, []), Shard()) == 0
    report = json.loads((root / "evaluation" / "report.json").read_text())
    cells = {(cell["model"], cell["harness"]): cell for cell in report["cells"]}
    with capsys.disabled():
        for (model, harness), cell in cells.items():
            interval = cell["interval"]
            print(f"{model:>18} in {harness:<14} {cell['pass@1']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]")
    assert len(cells) == len(policies) * len(OPTIONS)
    for cell in cells.values():
        score = Score(cell["score"]["solved"], cell["score"]["trials"])
        assert cell["launched"] == TASKS * ATTEMPTS >= LEAST
        assert cell["coverage"] >= 0.95
        assert (cell["interval"]["low"], cell["interval"]["high"]) == (wilson(score).low, wilson(score).high)
    for delta in report["regraded"].values():
        assert (delta["agree"], delta["undecided"]) == (delta["trials"], [])
    # The warm start knows every harness: it solves something in each, and not everything.
    assert all(0.05 <= cells["warm-start", harness]["pass@1"] <= 0.7 for harness in OPTIONS)
    own = [cells[f"in-{harness}", harness]["pass@1"] - cells["warm-start", harness]["pass@1"] for harness in OPTIONS]
    assert sum(own) / len(own) > 0, "training in a harness helps in it"
