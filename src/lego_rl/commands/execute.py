"""What is left of a run, from the loading of its weights on."""

import asyncio
import json
from collections.abc import Sequence

import typer

from lego_rl.commands.assemble import batch_shape, loop_parts
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.recipe_check import Checked
from lego_rl.commands.sampling import EngineWrapper, unchanged
from lego_rl.config.begun import check_begun
from lego_rl.config.load import dump
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.evaluate.heldout import score
from lego_rl.report.files import RunFiles
from lego_rl.rollout.labels import BEFORE
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.loop import Loop, Rewards, Watcher, as_graded


def execute(
    recipe: Recipe, checked: Checked, *, rewards: Rewards = as_graded, inject: EngineWrapper = unchanged
) -> None:
    """Do what is left of a run, without its report.

    Args:
        recipe: The resolved recipe.
        checked: What it names, which was seen to be there.
        rewards: What the trainer is told that a trial earned; a control experiment's in place of the graded ones.
        inject: What a control experiment puts between the auditor and the gateway.

    Raises:
        LegoError: Its folder is another run's or in use, or a check stopped the run.
    """
    tasks = checked.tasks
    if checked.note is not None:
        typer.echo(f"note: {checked.note}", err=True)
    directory = RunDirectory.make(recipe.run.dir)
    begun = directory.recipe.exists()
    with (
        ConsoleProgress(recipe.run.steps) as progress,
        loop_parts(recipe, checked, directory, progress, rewards=rewards, inject=inject) as parts,
    ):
        families = sorted({task.family for task in tasks.train})
        if not directory.trained_families.exists():
            write_text(directory.trained_families, json.dumps(families) + "\n")
        # Last: a folder with a recipe is a run that can be resumed. Another process may have begun one since `start`
        # looked; from here on this one has the folder to itself.
        if not directory.recipe.exists():
            write_text(directory.recipe, dump(recipe))
        check_begun(recipe, directory.recipe)
        if begun:
            progress.resumed(parts.trainer.version)
        if parts.trainer.version:
            show_before(directory, list(tasks.evaluated), progress)
        loop = Loop(parts, tasks, batch_shape(recipe), recipe.run.steps, recipe.evaluate, recipe.run.seed)
        asyncio.run(loop.run())


def show_before(directory: RunDirectory, splits: Sequence[str], watcher: Watcher) -> None:
    """Tell a watcher what was measured before training, which a resumed run does not measure again.

    Args:
        directory: The run's folder.
        splits: The evaluated splits.
        watcher: Is told of those that were tried.
    """
    before = [trial for trial in RunFiles(directory).trials if trial.spec.label == BEFORE]
    for split in splits:
        outcomes = [trial.outcome for trial in before if trial.spec.split == split]
        if outcomes:
            watcher.evaluated(BEFORE, split, score(outcomes))
