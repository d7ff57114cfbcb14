"""``lego-rl bench loop``: a training step of a recipe; JSON on standard output."""

import asyncio
import json
import resource
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from lego_rl.commands.policies import read_recipe
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.commands.screen import Screen
from lego_rl.config.recipe import Recipe
from lego_rl.rollout.metrics_file import Figure, read_rows
from lego_rl.rollout.store import RunDirectory


def loop(path: Path, overrides: Sequence[str]) -> None:
    """Run one step in a temporary folder and print what it took.

    Raises:
        LegoError: As for a training run.
    """
    recipe = read_recipe(path, overrides)
    checked = check_recipe(recipe)
    from lego_rl.commands.assemble import batch_shape, loop_parts  # they import torch: as for `lego-rl train`
    from lego_rl.train.loop import Loop

    with (
        tempfile.TemporaryDirectory(prefix="lego-rl-bench-") as folder,
        ConsoleProgress(1, Screen(stderr=True)) as progress,
    ):
        directory = RunDirectory.make(Path(folder) / "run")
        with loop_parts(recipe, checked, directory, progress) as parts:
            run = Loop(parts, checked.tasks, batch_shape(recipe), 1, recipe.evaluate, recipe.run.seed)
            asyncio.run(run.step(0))
        (row,) = read_rows(directory.metrics)
    typer.echo(json.dumps(figures(row, recipe), indent=2))


def figures(row: Mapping[str, Figure], recipe: Recipe) -> dict[str, object]:
    """What the benchmark reports.

    Args:
        row: The step's metrics.
        recipe: What was run.

    Returns:
        ``trials_per_min``; ``step_seconds``: wall-clock seconds of the step by phase, where the phases of a trial count
        their mean over the batch times the batch's size divided by the trials that run at a time; ``peak_rss_mb`` of
        this process, engine and trainer included, the harness's own processes not.
    """

    def number(name: str) -> float:
        value = row[name]
        assert isinstance(value, int | float), f"{name} is {value!r}"
        return float(value)

    trials = number("rollout/trials")
    waves = trials / min(recipe.rollout.concurrency, trials)
    seconds = {phase: round(number(f"seconds/{phase}") * waves, 2) for phase in ("harness", "engine", "grading")}
    return {
        "harness": recipe.harness.name,
        "trials": int(trials),
        "trials_per_min": round(60 * trials / number("seconds/rollout"), 1),
        "step_seconds": seconds | {"training": round(number("seconds/training"), 2)},
        "rollout_seconds": round(number("seconds/rollout"), 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
