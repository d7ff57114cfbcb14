"""``lego-rl tasks``: arguments of the commands that make, measure and choose tasks; see `lego_rl.cli`."""

from pathlib import Path
from typing import Annotated

import typer

from lego_rl.cli_arguments import SandboxKeys

app = typer.Typer(help="Make, convert, validate, index, filter and decontaminate tasks.", no_args_is_help=True)

Index = Annotated[Path, typer.Argument(help="An index of tasks.")]
Environment = Annotated[str, typer.Option(metavar="NAME", help="How the sandboxes of the tests are isolated.")]


@app.command("build")
def build(
    out: Annotated[Path, typer.Option(help="Folder for the Harbor task directories.")],
) -> None:
    """Write the built-in pool as Harbor task directories."""
    from lego_rl.commands import tasks as command

    command.build(out)


@app.command("convert")
def convert(
    form: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="swebench, openswe, swe-rebench, swe-rebench-v2, swe-gym, r2e-gym or swe-smith.",
        ),
    ],
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT...", help="JSON lines, JSON, Parquet, Arrow, or folders.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the Harbor task directories.")],
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as processors if unset.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be converted.")] = False,
) -> None:
    """Make Harbor task directories of public rows; what is there already stays as it is."""
    from lego_rl.commands import tasks_convert as command

    command.convert(form, inputs, out, workers, strict=strict)


@app.command("make")
def make(
    repo: Annotated[
        list[Path], typer.Argument(help="A git checkout, a folder, or source distributions (.tar.gz) of one package.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the Harbor task directories.")],
    inject: Annotated[int, typer.Option(min=0, help="Tasks with a bug put into the newest state, at most.")] = 10,
    mine: Annotated[int, typer.Option(min=0, help="Tasks from fixes in the history, at most.")] = 10,
    seed: Annotated[int, typer.Option(help="Chooses among candidates; the same gives the same tasks.")] = 0,
    at_once: Annotated[int, typer.Option(min=1, help="Test runs at a time.")] = 2,
    repository: Annotated[
        str | None,
        typer.Option("--repo", metavar="OWNER/NAME", help="Which repository it is of, unless it says a known one."),
    ] = None,
    environment: Environment = "bubblewrap",
    overrides: SandboxKeys = [],  # noqa: B006  (typer reads the default, nothing writes it)
) -> None:
    """Make tasks of a Python source tree: verified bugs put into it, and fixes found in its history."""
    from lego_rl.commands import tasks_make as command
    from lego_rl.tasks.make.making import Wish

    command.make(repo, out, Wish(inject, mine, seed, at_once, repository), environment, overrides)


@app.command("validate")
def validate(
    tasks: Annotated[list[Path], typer.Argument(help="Index files, pools, or task directories.")],
    times: Annotated[int, typer.Option(min=1, help="Gradings without a change, and with the solution.")] = 3,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks at a time.")] = 2,
    record: Annotated[
        bool,
        typer.Option("--record", help="Find out which tests decide, where a task does not say, and write it."),
    ] = False,
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where findings are kept; beside the tasks by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The index of the valid ones; others are no error then."),
    ] = None,
    environment: Environment = "bubblewrap",
    overrides: SandboxKeys = [],  # noqa: B006  (typer reads the default, nothing writes it)
) -> None:
    """Check that tasks fail without their fix and pass with it, every time, in sealed sandboxes."""
    from lego_rl.commands import tasks_validate as command

    command.validate(
        tasks,
        times=times,
        at_once=at_once,
        record=record,
        journal=journal,
        out=out,
        environment=environment,
        overrides=overrides,
    )


@app.command("index")
def index(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Task directories, or folders of them.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The index.")],
    data_source: Annotated[
        str | None, typer.Option(help="Their set, where a task does not say; by default the folder's name.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop if a task directory cannot be used.")] = False,
) -> None:
    """Write the index of task directories, one Parquet row a task."""
    from lego_rl.commands import tasks_index as command

    command.index(folders, out, data_source, strict=strict)


@app.command("show")
def show(
    index: Index,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Tasks to print in full.")] = [],  # noqa: B006
    most: Annotated[int, typer.Option(min=1, help="Rows of the table without an ID.")] = 20,
) -> None:
    """Print tasks of an index."""
    from lego_rl.commands import tasks_index as command

    command.show(index, ids, most)


@app.command("stats")
def stats(index: Index) -> None:
    """Count what an index holds."""
    from lego_rl.commands import tasks_index as command

    command.show_stats(index)


@app.command("split")
def split(
    index: Index,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for NAME.parquet of each part.")],
    parts: Annotated[list[str], typer.Option("--part", metavar="NAME=WEIGHT", help="A part; again for several.")],
    unit: Annotated[str, typer.Option("--by", help="What stays together: repository or task.")] = "repository",
    seed: Annotated[int, typer.Option(help="Another one makes another split.")] = 0,
) -> None:
    """Cut an index into disjoint parts."""
    from lego_rl.commands import tasks_index as command

    command.cut(index, out, parts, command.unit_named(unit), seed)


@app.command("merge")
def merge(
    indexes: Annotated[list[Path], typer.Argument(metavar="INDEX...", help="Indexes of tasks.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The index of all.")],
) -> None:
    """Make one index of several; a task that two of them have is an error."""
    from lego_rl.commands import tasks_index as command

    command.join(indexes, out)


@app.command("filter")
def keep(
    index: Index,
    outcomes: Annotated[
        list[Path],
        typer.Option("--outcomes", metavar="RUN", help="A run directory or outcomes file; again for several."),
    ],
    solved: Annotated[str, typer.Option(metavar="LOW..HIGH", help="How often a task has to be solved.")] = "1..3",
    of: Annotated[int, typer.Option(min=1, help="Of how many trials.")] = 4,
    signal: Annotated[float, typer.Option(help="Expected mean absolute advantage that it has to have.")] = 0.0,
    group: Annotated[
        int | None, typer.Option(min=2, help="Trials of a task in training, for the expected advantage; default: --of.")
    ] = None,
    policies: Annotated[
        list[str], typer.Option("--policy", metavar="NAME", help="Only its trials; several are counted together.")
    ] = [],  # noqa: B006
    labels: Annotated[
        list[str], typer.Option("--label", metavar="NAME", help="Only trials of it, or below it; likewise.")
    ] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The index of what is kept.")] = None,
    undecided: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The index of what further trials decide.")
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Parquet table with what is known of every task.")
    ] = None,
) -> None:
    """Keep the tasks that a policy solves sometimes, and print how the whole pool is distributed."""
    from lego_rl.commands import tasks_filter as command
    from lego_rl.tasks.index.band import Band

    band = Band.parse(solved, of)
    command.run(
        index,
        outcomes,
        command.Wanted(band, signal, group or band.of, policies, labels),
        out=out,
        undecided=undecided,
        decisions=decisions,
    )


@app.command("decontaminate")
def decontaminate(
    index: Index,
    against: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Ids or rows (Parquet, Arrow, JSON, JSON lines; .txt: an id a line), an index, or swe-bench-verified.",
        ),
    ],
    relax: Annotated[list[str], typer.Option(metavar="RULE", help="Report what this rule hits, and leave it in.")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The index of what is clean.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Every hit, as Parquet.")] = None,
    check: Annotated[bool, typer.Option("--check", help="End with an error if anything is left.")] = False,
) -> None:
    """Find tasks that are, or come from, what a model is evaluated on; prints every hit with its reason."""
    from lego_rl.commands import tasks_decontaminate as command

    command.run(index, against, relax, out, report, check=check)
