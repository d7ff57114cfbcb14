"""``lego-rl train``: a whole run from one recipe, or what is left of it."""

from collections.abc import Sequence
from pathlib import Path

import typer

from lego_rl.commands import report
from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.program import program
from lego_rl.commands.recipe_check import check_recipe
from lego_rl.config.begun import moved
from lego_rl.config.load import dump, read
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError, RunError
from lego_rl.harness import registry
from lego_rl.rollout.contents import check_contents
from lego_rl.rollout.store import RunDirectory

_INTERRUPTED = 130
_CHANGED = "put those tasks back, or start a new run in another folder with --set run.dir=DIR"


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
    if resolved.cluster is not None:
        raise ConfigError(f"{recipe} is of a cluster", f"{program()} train {recipe} --backend verl")
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
        RunError: The folder holds no run, or one whose tasks were changed since.
        LegoError: As for `start`.
    """
    _run_and_report(_recipe_of(path, overrides), path)


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
        with said_if_slow("checking what the recipe names, and its tasks"):
            checked = check_recipe(recipe)
            check_contents(RunDirectory(path), checked.tasks.every, _CHANGED)
        typer.echo("loading the policy", err=True)
        from lego_rl.commands.execute import execute  # it imports torch: what cannot be run is refused before that

        execute(recipe, checked)
    except KeyboardInterrupt:
        if RunDirectory(path).recipe.exists():
            typer.echo(f"stopped; nothing finished is lost. Continue with: {_resuming(path)}", err=True)
        else:
            typer.echo("stopped before the run began", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    report.run(path)
