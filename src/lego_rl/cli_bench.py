"""``lego-rl bench``: arguments of the commands that measure; see `lego_rl.cli`."""

from pathlib import Path
from typing import Annotated

import typer

from lego_rl.cli_arguments import Overrides, SandboxKeys

app = typer.Typer(help="Measure; the result is JSON on standard output.", no_args_is_help=True)


@app.command("loop")
def loop(
    recipe: Annotated[Path, typer.Option(help="The recipe to measure.")] = Path("recipes/demo-claude-code.toml"),
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Run one training step and print trials per minute, seconds by phase and peak memory."""
    from lego_rl.commands import bench_loop as command

    command.loop(recipe, overrides)


@app.command("capture")
def capture(
    dialect: Annotated[str, typer.Option(help="openai-chat (whole answers) or anthropic (streamed).")] = "openai-chat",
    turns: Annotated[int, typer.Option(min=20, help="Model calls of the conversation.")] = 200,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions at once, in the last part.")] = 16,
) -> None:
    """Measure what capturing a conversation of 200,000 tokens costs the gateway, against rendering it anew."""
    from lego_rl.commands import bench_capture as command

    command.capture(dialect, turns, sessions)


@app.command("sandbox")
def sandbox(
    environments: Annotated[
        list[str],
        typer.Option("--environment", metavar="NAME", help="A way to isolate, again for several; all by default."),
    ] = [],  # noqa: B006
    trials: Annotated[int, typer.Option(min=2, help="Trials of each.")] = 64,
    concurrency: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 8,
    overrides: SandboxKeys = [],  # noqa: B006
) -> None:
    """Measure what isolation costs a trial: start, seal, taking the work, a fresh start to grade in, stop."""
    from lego_rl.commands import bench_sandbox as command

    command.sandbox(environments, trials, concurrency, overrides)


@app.command("tasks")
def tasks(
    candidates: Annotated[int, typer.Option(min=1_000, help="Tasks of the pool.")] = 36_884,
    attempts: Annotated[int, typer.Option(min=1, help="Trials of each.")] = 4,
    seed: Annotated[int, typer.Option(help="Another one makes another pool.")] = 0,
) -> None:
    """Measure filtering and decontaminating a made-up pool, and what of changed copies is found."""
    from lego_rl.commands import bench_tasks as command

    command.tasks(candidates, attempts, seed)


@app.command("analyse")
def analyse(
    trials: Annotated[int, typer.Option(min=16, help="Trials of the evaluation, in two cells.")] = 4_000,
    turns: Annotated[int, typer.Option(min=20, help="Model calls of each.")] = 200,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Make it here, and leave it; else it is removed.")
    ] = None,
) -> None:
    """Measure reporting, comparing and analysing an evaluation of long trials, which is made up first."""
    from lego_rl.commands import bench_analyse as command

    command.analyse(trials, turns, folder)
