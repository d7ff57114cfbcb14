"""``lego-rl eval`` and ``lego-rl regrade``: arguments; see `lego_rl.cli`."""

from pathlib import Path
from typing import Annotated

import typer

from lego_rl.cli_arguments import Overrides, SandboxKeys
from lego_rl.evaluate.made_from import From

app = typer.Typer(help="Evaluate models in harnesses, and compare.", no_args_is_help=True)

_Place = typer.Argument(help="An evaluation's folder, one of its cells (FOLDER:MODEL--HARNESS), or a run directory.")


@app.command("run")
def run(
    config: Annotated[Path, typer.Argument(help="A configuration, such as recipes/eval-demo.toml.")],
    overrides: Overrides = [],  # noqa: B006  (typer reads the default, nothing writes it)
    shard: Annotated[str, typer.Option(metavar="I/N", help="Only this part of the tasks, counted from 0.")] = "0/1",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run, and stop.")] = False,
) -> None:
    """Run what is left of an evaluation, and report: models × harnesses over tasks, by a protocol."""
    from lego_rl.commands import eval_run as command

    if dry_run:
        command.dry_run(config, overrides)
    else:
        command.run(config, overrides, shard)


@app.command("report")
def report(
    folders: Annotated[list[Path], typer.Argument(help="The evaluation's folder, or those of its shards.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the files; the first folder by default.")] = None,
) -> None:
    """Make the report of an evaluation again: terminal, report.json, report.md, report.html."""
    from lego_rl.commands import eval_report as command

    command.report_folders(folders, out)


@app.command("compare")
def compare(
    first: Annotated[str, _Place],
    second: Annotated[str, _Place],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of lines.")] = False,
) -> None:
    """Compare two evaluations task by task, and say whether they can be told apart."""
    from lego_rl.commands import eval_report as command

    command.compare_places(first, second, as_json=as_json)


@app.command("env")
def env(
    file: Annotated[Path, typer.Argument(help="A file of KEY=value lines: scripts/eval/_template.env has every key.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run, and stop.")] = False,
) -> None:
    """Evaluate as a file of keys says (scripts/eval/eval.sh): serve the model, try it, report."""
    from lego_rl.commands import eval_env as command

    (command.dry_run if dry_run else command.run)(file)


def regrade(
    run: Annotated[Path, typer.Argument(help="A run directory, or an evaluation's folder.")],
    source: Annotated[
        From, typer.Option("--from", help="patch: run the tests again; report: read what they left again.")
    ] = From.PATCH,
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="So many trials of each run.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 2,
    overrides: SandboxKeys = [],  # noqa: B006
) -> None:
    """Make the verdicts of a run again, or what is left of them, and name every trial whose verdict is another one."""
    from lego_rl.commands import regrade as command

    command.run(run, source, sample, at_once, overrides)
