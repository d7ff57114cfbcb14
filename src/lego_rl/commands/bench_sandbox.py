"""``lego-rl bench sandbox``: what isolation costs a trial; JSON on standard output, progress on standard error."""

import asyncio
import json
from collections.abc import Sequence

import typer

from lego_rl.bench.sandbox import SandboxBench
from lego_rl.bench.sandbox_task import TaskSize
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.live_line import LiveLine
from lego_rl.sandbox.environments import ENVIRONMENTS, provider_of


def sandbox(environments: Sequence[str], trials: int, concurrency: int, overrides: Sequence[str]) -> None:
    """Measure and print the figures.

    Args:
        environments: Names of the ways to isolate; all where none is named.
        trials: Trials of each.
        concurrency: How many at a time.
        overrides: ``sandbox.key=value`` strings, as for a recipe.

    Raises:
        ConfigError: There is no such way to isolate, or no such key.
        SandboxError: A sandbox could not be had.
    """
    wanted = tuple(dict.fromkeys(environments)) or ENVIRONMENTS
    providers = {name: provider_of(sandbox_settings(name, overrides)) for name in wanted}
    with LiveLine("starting") as line:
        bench = SandboxBench(TaskSize(), trials, concurrency, line.show)
        figures = asyncio.run(bench.run(providers))
    typer.echo(json.dumps(figures, indent=2))
