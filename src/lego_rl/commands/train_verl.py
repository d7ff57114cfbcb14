"""``lego-rl train --backend verl``: a recipe's run on stock verl. verl's own process takes this one's place.

The same command, given again, goes on from verl's last checkpoint.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Never

import numpy as np
import typer

from lego_rl.cluster.launch import Launch
from lego_rl.commands.live_line import said_if_slow
from lego_rl.commands.policies import read_recipe
from lego_rl.commands.preflight import preflight, verl_python
from lego_rl.commands.recipe_check import load_tasks
from lego_rl.config.begun import check_begun
from lego_rl.config.preflight.rule import Level
from lego_rl.config.recipe import Recipe
from lego_rl.errors import ConfigError
from lego_rl.sandbox.environments import state_of
from lego_rl.tasks.index.build import build_index
from lego_rl.tasks.index.file import Index, is_index, write_table
from lego_rl.tasks.pool import pool_place


def dry_run(recipe: Path, overrides: Sequence[str]) -> None:
    """Print the line that would be run.

    Raises:
        ConfigError: The recipe cannot be used.
    """
    typer.echo(_launch(read_recipe(recipe, overrides)).line)


def start(recipe: Path, overrides: Sequence[str]) -> Never:
    """Begin a run, or go on with it.

    Raises:
        RunError: The run directory holds a run of another recipe.
        LegoError: A preflight rule found something fatal, or the run's files cannot be written.
    """
    launch = _launch(read_recipe(recipe, overrides))
    if launch.files.recipe.exists():
        check_begun(launch.recipe, launch.files.recipe)
    with said_if_slow("asking every preflight rule"):
        _refuse_fatal(launch.recipe)
    launch.write()
    write_datasets(launch)
    typer.echo(launch.line, err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(launch.command[0], list(launch.command), {**os.environ, **launch.environment})


def _launch(recipe: Recipe) -> Launch:
    return Launch.of(recipe, verl_python(recipe))


def _refuse_fatal(recipe: Recipe) -> None:
    verdicts = [verdict for verdict in preflight(recipe, offline=False) if verdict.level is not Level.OK]
    for verdict in verdicts:
        typer.echo(f"{verdict.level:5}  {verdict.rule.id}: {verdict.what}; fix: {verdict.fix}", err=True)
    fatal = [verdict.rule.id for verdict in verdicts if verdict.level is Level.FATAL]
    if fatal:
        raise ConfigError(f"the run would fail: {', '.join(fatal)}", "mend what is said above, one line each")


def write_datasets(launch: Launch) -> None:
    """Write the index of the tasks that are trained on, and of those that are evaluated, into the run directory.

    Raises:
        LegoError: A task cannot be used, or the disk does not take them.
    """
    recipe, tasks = launch.recipe, load_tasks(launch.recipe)
    place = pool_place(recipe.tasks.pool, state_of(recipe.sandbox).root / "pools")
    index = Index.read(place) if is_index(place) else build_index([place])[0]
    places = [path.resolve() for path in index.paths]
    evaluated = {task.path.resolve() for chosen in tasks.evaluated.values() for task in chosen}
    trained = {task.path.resolve() for task in tasks.train}
    for file, wanted in ((launch.files.train, trained), (launch.files.evaluated, evaluated)):
        if wanted:  # paths stay absolute: the run directory is not where the pool is
            write_table(index.take(np.array([path in wanted for path in places])).table, file)
