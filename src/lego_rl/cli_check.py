"""``lego-rl check`` and ``lego-rl selfcheck``: arguments; see `lego_rl.cli`."""

from typing import Annotated

import typer

from lego_rl.cli_arguments import Overrides, Recipe, SandboxKeys

app = typer.Typer(help="Check this machine before anything starts.", no_args_is_help=True)
selfcheck = typer.Typer(help="Attack what is to hold, and work in it honestly.", no_args_is_help=True)


@app.command("sandbox")
def sandbox(
    environment: Annotated[
        str, typer.Option(metavar="NAME", help="How: bubblewrap, docker or kubernetes.")
    ] = "bubblewrap",
    overrides: SandboxKeys = [],  # noqa: B006
) -> None:
    """Check that agents can be isolated here, and say how memory and processes are limited."""
    from lego_rl.commands import check as command

    command.sandbox(environment, overrides)


@app.command("recipe")
def recipe(
    recipe: Recipe,
    overrides: Overrides = [],  # noqa: B006
    offline: Annotated[bool, typer.Option("--offline", help="Look at the recipe alone, not at this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of lines.")] = False,
) -> None:
    """Ask every preflight rule about a recipe: sizes, memory, replay, harness, tasks; exit code 1 if one is fatal."""
    from lego_rl.commands import check as command

    command.recipe(recipe, overrides, offline=offline, as_json=as_json)


@selfcheck.command("sandbox")
def selfcheck_sandbox(
    environment: Annotated[
        str, typer.Option(metavar="NAME", help="How sandboxes are isolated: bubblewrap, docker or kubernetes.")
    ] = "bubblewrap",
    overrides: SandboxKeys = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
) -> None:
    """Run attacks and honest work through the path of every trial; the exit code says whether all of it held."""
    from lego_rl.commands import selfcheck as command

    command.sandbox(environment, overrides, as_json=as_json)
