"""``lego-rl bench sandbox``: what isolation costs a trial; JSON on standard output, progress on standard error."""

import asyncio
import json
import time
from collections.abc import Sequence

import typer
from rich.status import Status

from lego_rl.bench.sandbox import SandboxBench
from lego_rl.bench.sandbox_task import TaskSize
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.screen import Screen
from lego_rl.sandbox.environments import ENVIRONMENTS, provider_of

QUIET_SECONDS = 5.0
"""Between two lines where nobody sees one being replaced."""


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
    console = Screen(stderr=True)
    with console.status("starting") as status:
        bench = SandboxBench(TaskSize(), trials, concurrency, _Progress(console, status))
        figures = asyncio.run(bench.run(providers))
    typer.echo(json.dumps(figures, indent=2))


class _Progress:
    """Shows the last line on a terminal; elsewhere prints one now and then."""

    def __init__(self, console: Screen, status: Status) -> None:
        self._console = console
        self._status = status
        self._printed = 0.0

    def __call__(self, line: str) -> None:
        self._status.update(line)
        if not self._console.is_terminal and time.monotonic() - self._printed > QUIET_SECONDS:
            self._printed = time.monotonic()
            self._console.print(line)
