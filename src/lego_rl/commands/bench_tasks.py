"""``lego-rl bench tasks``: filtering and decontaminating a large pool; JSON on standard output."""

import json

import typer

from lego_rl.bench.tasks import measure
from lego_rl.bench.tasks_pool import PoolSize
from lego_rl.commands.screen import Screen


def tasks(candidates: int, attempts: int, seed: int) -> None:
    """Measure and print the figures; what is being done is on standard error.

    Args:
        candidates: Tasks of the pool.
        attempts: Trials of each.
        seed: Of everything that is made up.
    """
    console = Screen(stderr=True)
    with console.status("starting") as status:
        figures = measure(PoolSize(candidates, attempts, seed), status.update)
    typer.echo(json.dumps(figures, indent=2))
