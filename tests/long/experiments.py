"""The experiments' runs: made once, continued where they were stopped, and measured from their records.

A run that the folder holds already may have been made by the command: ``lego-rl train recipes/demo-claude-code.toml
--set run.seed=1 --set run.dir=RUNS/claude-code-seed-1``. It must be one of the recipe that the experiment would run.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from lego_rl.commands.execute import execute
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.commands.sampling import EngineWrapper, unchanged
from lego_rl.config.begun import check_begun
from lego_rl.config.load import read
from lego_rl.config.recipe import Recipe
from lego_rl.evaluate.heldout import Score
from lego_rl.report.files import RunFiles
from lego_rl.report.summary import Summary
from lego_rl.report.write import write_report
from lego_rl.rollout.labels import AFTER
from lego_rl.rollout.metrics_file import checkpoints_in
from lego_rl.train.loop import Rewards, as_graded

RECIPES = Path(__file__).parents[2] / "recipes"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    recipe: Recipe
    path: Path

    @property
    def last_policy(self) -> Path:
        """The policy directory of its last checkpoint."""
        return checkpoints_in(self.path / "checkpoints")[-1][1] / "policy"

    def summary(self) -> Summary:
        return write_report(self.path).summary


@dataclass(frozen=True)
class Experiments:
    """The runs of one folder, by name."""

    root: Path

    def trained(self, harness: str, seed: int) -> Run:
        """The demo's run, as its command makes it."""
        return self.run(f"{harness}-seed-{seed}", harness, f"run.seed={seed}")

    def run(
        self,
        name: str,
        harness: str,
        *overrides: str,
        rewards: Rewards = as_graded,
        inject: EngineWrapper = unchanged,
    ) -> Run:
        """Do what is left of a run, if anything is."""
        path = self.root / name
        recipe = read(Recipe, RECIPES / f"demo-{harness}.toml", [f"run.dir={path}", *overrides])
        if (path / "recipe.toml").exists():
            check_begun(recipe, path / "recipe.toml")
        if not is_finished(recipe, path):
            execute(recipe, check_recipe(recipe), rewards=rewards, inject=inject)
        return Run(recipe, path)


def is_finished(recipe: Recipe, path: Path) -> bool:
    """Whether a run has all its steps, and as many trials after the last as its recipe asks for."""
    if not (path / "recipe.toml").exists():
        return False
    run = RunFiles.open(path)
    tried = sum(trial.spec.label == AFTER for trial in run.trials)
    return len(run.rows) == recipe.run.steps and tried >= sum(recipe.evaluate.splits.values()) * recipe.evaluate.trials


def rate(*scores: Score) -> float:
    """Solve rate of all trials together; at least one must count."""
    return sum(score.solved for score in scores) / sum(score.trials for score in scores)


def show(capsys: pytest.CaptureFixture[str], experiment: str, figures: object) -> None:
    """Print an experiment's figures as JSON, whatever becomes of its assertions."""
    with capsys.disabled():
        print("\n" + json.dumps({"experiment": experiment, "figures": figures}, indent=1), flush=True)
