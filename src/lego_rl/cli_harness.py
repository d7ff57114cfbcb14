"""``lego-rl harness``: arguments; see `lego_rl.cli`."""

from typing import Annotated

import typer

app = typer.Typer(help="Install and inspect harnesses.", no_args_is_help=True)


@app.command("install")
def install(name: Annotated[str, typer.Argument(help="Registry name, such as claude-code.")]) -> None:
    """Install the pinned version of a harness as a read-only bundle."""
    from lego_rl.commands import harness as command

    command.install(name)


@app.command("list")
def show() -> None:
    """Show the known harnesses: version, size, hash, licence."""
    from lego_rl.commands import harness as command

    command.show()


@app.command("verify")
def verify(name: Annotated[str, typer.Argument(help="Registry name.")]) -> None:
    """Hash every file of an installed bundle and compare."""
    from lego_rl.commands import harness as command

    command.verify(name)


@app.command("test")
def test(
    name: Annotated[str, typer.Argument(help="Registry name.")],
    only: Annotated[
        list[str], typer.Option("--only", metavar="SITUATION", help="Only this situation, again for several.")
    ] = [],  # noqa: B006
    options: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="OPTION=VALUE", help="An option of the harness, such as bare=true, again for several."
        ),
    ] = [],  # noqa: B006
    at_once: Annotated[int, typer.Option(min=1, help="Situations at a time.")] = 2,
) -> None:
    """Put an installed harness through every situation that capture has to survive, and print which laws held."""
    from lego_rl.commands import harness as command

    command.test(name, only, options, at_once)
