"""``lego-rl train``: a whole run from one recipe, or what is left of it."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import typer

from lego_rl.commands import report
from lego_rl.commands.assemble import batch_shape, check_machine, load_tasks, loop_parts
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.program import program
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.sampling import EngineWrapper, unchanged
from lego_rl.config.begun import check_begun, moved
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.durable import write_text
from lego_rl.errors import ConfigError, RunError
from lego_rl.evaluate.heldout import score
from lego_rl.harness import registry
from lego_rl.report.files import RunFiles
from lego_rl.rollout.labels import BEFORE
from lego_rl.rollout.store import RunDirectory
from lego_rl.train.loop import Loop, Rewards, Watcher, as_graded

_INTERRUPTED = 130


def dry_run(recipe: Path, overrides: Sequence[str]) -> None:
    """Print the resolved recipe.

    Raises:
        ConfigError: The recipe cannot be used.
    """
    resolved = read_recipe(recipe, overrides)
    registry.make(resolved.harness.name, resolved.harness.options)
    typer.echo(dump(resolved), nl=False)


def start(recipe: Path, overrides: Sequence[str]) -> None:
    """Begin a run.

    Raises:
        RunError: The run directory holds a run already.
        LegoError: Something that the recipe names is missing or does not fit, or a check stopped the run.
    """
    resolved = read_recipe(recipe, overrides)
    path = resolved.run.dir
    directory = RunDirectory(path)
    if directory.recipe.exists() or (directory.journal.is_file() and directory.journal.stat().st_size):
        raise RunError(
            f"{path} holds a run already",
            f"continue it with: {_resuming(path)}, or choose another folder with --set run.dir=DIR",
        )
    _run_and_report(resolved, path)


def dry_resume(path: Path, overrides: Sequence[str]) -> None:
    """Print the recipe that a run would be continued with.

    Raises:
        ConfigError: As for `resume`.
        RunError: As for `resume`.
    """
    typer.echo(dump(_recipe_of(path, overrides)), nl=False)


def resume(path: Path, overrides: Sequence[str]) -> None:
    """Continue a run from its last finished step.

    Raises:
        ConfigError: Overrides were given: a run has one recipe.
        RunError: The folder holds no run.
        LegoError: As for `start`.
    """
    _run_and_report(_recipe_of(path, overrides), path)


def execute(recipe: Recipe, *, rewards: Rewards = as_graded, inject: EngineWrapper = unchanged) -> None:
    """Do what is left of a run, without its report.

    Args:
        recipe: The resolved recipe.
        rewards: What the trainer is told that a trial earned; a control experiment's in place of the graded ones.
        inject: What a control experiment puts between the auditor and the gateway.

    Raises:
        LegoError: As for `start`.
    """
    tasks = load_tasks(recipe)
    if (warning := check_machine(recipe, tasks)) is not None:
        typer.echo(f"note: {warning}", err=True)
    directory = RunDirectory.make(recipe.run.dir)
    begun = directory.recipe.exists()
    with (
        ConsoleProgress(recipe.run.steps) as progress,
        loop_parts(recipe, directory, progress, rewards=rewards, inject=inject) as parts,
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


def _resuming(path: Path) -> str:
    """The command that goes on with a run."""
    return f"{program()} train --resume {path}"


def _recipe_of(path: Path, overrides: Sequence[str]) -> Recipe:
    """The recipe that a run began with; its directory may have been moved since."""
    if overrides:
        raise ConfigError("a resumed run keeps its recipe; --set cannot change it", "start a new run instead")
    recipe = RunDirectory(path).recipe
    if not recipe.exists():
        raise RunError(f"{path} holds no run", "name a folder that lego-rl train has made")
    resolved = read(Recipe, recipe)
    return moved(resolved, path)


def _run_and_report(recipe: Recipe, path: Path) -> None:
    try:
        execute(recipe)
    except KeyboardInterrupt:
        if RunDirectory(path).recipe.exists():
            typer.echo(f"stopped; nothing finished is lost. Continue with: {_resuming(path)}", err=True)
        else:
            typer.echo("stopped before the run began", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    report.run(path)
