"""The ``lego-rl`` command: it reads arguments, calls one function of `lego_rl.commands` and prints what went wrong.

Each command imports its module when it is called, so that ``--help`` needs no heavy library.
"""

import errno
import logging
import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Annotated, Never

import typer

from lego_rl import __version__, cli_bench, cli_check, cli_eval, cli_harness, cli_run, cli_serve, cli_tasks
from lego_rl.cli_arguments import Backend, Form, Overrides, Recipe, RunDir
from lego_rl.commands.program import as_called
from lego_rl.errors import LegoError
from lego_rl.plain_text import PlainFormatter, plain

app = typer.Typer(
    name="lego-rl",
    help="Reinforcement learning of coding agents inside the harness they will be deployed in.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(cli_harness.app, name="harness")
app.add_typer(cli_tasks.app, name="tasks")
app.add_typer(cli_check.app, name="check")
app.add_typer(cli_bench.app, name="bench")
app.add_typer(cli_check.selfcheck, name="selfcheck")
app.add_typer(cli_serve.app, name="serve")
app.add_typer(cli_eval.app, name="eval")
app.command("run")(cli_run.run)
app.command("regrade")(cli_eval.regrade)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def train(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe, such as recipes/demo-claude-code.toml.")] = None,
    overrides: Overrides = [],  # noqa: B006  (typer reads the default, nothing writes it)
    resume: Annotated[
        Path | None, typer.Option(help="Continue this run directory from its last finished step.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved recipe, with verl the line it is run by, and stop.")
    ] = False,
    backend: Annotated[
        Backend, typer.Option(metavar="NAME", help="embedded: on this machine; verl: as the recipe's cluster says.")
    ] = Backend.EMBEDDED,
) -> None:
    """Train a policy inside a harness: rollouts, GSPO with routing replay, held-out evaluation, report."""
    if resume is not None and recipe is not None:
        raise typer.BadParameter("a resumed run has its recipe in its directory; give either RECIPE or --resume RUN")
    if resume is None and recipe is None:
        raise typer.BadParameter("give a recipe, such as recipes/demo-claude-code.toml, or --resume RUN")
    if resume is not None and backend is Backend.VERL:
        raise typer.BadParameter(
            f"a run on verl is gone on with by its recipe: train {resume / 'recipe.toml'} --backend verl"
        )
    from lego_rl.commands import train as command

    if resume is not None:
        if dry_run:
            command.dry_resume(resume, overrides)
        else:
            command.resume(resume, overrides)
    elif recipe is None:
        raise AssertionError("one of both was given")
    elif backend is Backend.VERL:
        _train_on_verl(recipe, overrides, dry_run=dry_run)
    elif dry_run:
        command.dry_run(recipe, overrides)
    else:
        command.start(recipe, overrides)


def _train_on_verl(recipe: Path, overrides: list[str], *, dry_run: bool) -> None:
    from lego_rl.commands import train_verl as command

    (command.dry_run if dry_run else command.start)(recipe, overrides)


@app.command()
def sft(
    recipe: Annotated[Path, typer.Argument(help="A recipe of lego-rl sft: docs/reference/sft.md has its keys.")],
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Train a policy on captured demonstrations (supervised fine-tuning)."""
    from lego_rl.commands import sft as command

    command.run(recipe, overrides)


@app.command()
def rollout(
    recipe: Recipe,
    tasks: Annotated[list[Path], typer.Argument(help="Index files, pools, or task directories.")],
    out: Annotated[Path, typer.Option(help="The run directory; one that was begun is continued.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Trials of each task.")] = 4,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = 1.0,
    first_attempt: Annotated[
        int, typer.Option(min=0, metavar="K", help="Number of the first trial; those below it were run elsewhere.")
    ] = 0,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Only this part of the tasks, counted from 0.")] = "0/1",
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Run trials of a policy over tasks, without training, and write their outcomes for the filter."""
    from lego_rl.commands import rollout as command

    command.run(
        recipe,
        tasks,
        out,
        n=n,
        temperature=temperature,
        shard=shard,
        overrides=overrides,
        first_attempt=first_attempt,
    )


@app.command()
def report(run: RunDir) -> None:
    """Recompute every summary of a run from its records: summary.json, report.html and the table."""
    from lego_rl.commands import report as command

    command.run(run)


@app.command()
def analyse(
    run: Annotated[Path, typer.Argument(help="A run directory, or an evaluation's folder.")],
    against: Annotated[Path | None, typer.Option(metavar="RUN", help="Compare with this one, task by task.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables into a file, too.")] = None,
) -> None:
    """Show what agents do, before and after or of two runs: re-reading, testing, loops, malformed calls."""
    from lego_rl.commands import analyse as command

    command.run(run, against, as_json=as_json, to_markdown=markdown)


@app.command()
def export(
    source: Annotated[Path, typer.Argument(help="A run directory, for its latest checkpoint; or a checkpoint.")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    base: Annotated[
        Path | None, typer.Option(help="The policy that training started from; by default the recipe's.")
    ] = None,
) -> None:
    """Write a trained policy as a Hugging Face folder with a model card: what vLLM and transformers load."""
    from lego_rl.commands import export as command

    command.run(source, out, base)


@app.command("export-sft")
def export_sft(
    runs: Annotated[list[Path], typer.Argument(help="Run directories: of rollouts, of training, of captures.")],
    out: Annotated[Path, typer.Option(help="A new folder (tokens) or a new file (chat).")],
    form: Annotated[
        Form, typer.Option("--format", help="tokens: as sampled, for lego-rl sft; chat: messages, JSON Lines.")
    ] = Form.TOKENS,
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A rule, such as per_task=2, again for several."),
    ] = [],  # noqa: B006
) -> None:
    """Choose trials that are worth learning from (rejection sampling), and write them."""
    from lego_rl.commands import sft_export as command

    command.run(runs, out, form, overrides)


@app.command()
def inspect(
    trial: Annotated[Path, typer.Argument(help="A trial's folder, RUN/trials/ID; of a run, its list of trials.")],
    policy: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Spell tokens with the tokenizer of this policy (or builtin:NAME)."),
    ] = None,
    context: Annotated[int, typer.Option(min=2, help="Characters shown of a stretch of context.")] = 160,
) -> None:
    """Print a trial's calls and training sequences, with what of it is trained; or, of a run, its trials."""
    from lego_rl.commands import inspect as command

    command.run(trial, policy, context)


def main() -> None:
    """Entry point: an expected failure is two lines on standard error and exit code 1; wrong usage is 2, Ctrl-C 130.

    Whoever asks a command to end, as job schedulers and service managers do, has it end as Ctrl-C does.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors="replace")  # a terminal without a letter for something is no reason to end a run
    if logging.lastResort is not None:  # for what nobody else writes down: Harbor has a file for each trial
        logging.lastResort.setFormatter(PlainFormatter())
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    logging.raiseExceptions = False  # a log that a full disk does not take is no reason for tracebacks
    try:
        app()
    except Exception as error:  # looked at, and raised again where nobody expected it
        expected = _only(error)
        if isinstance(expected, LegoError):
            _fail(expected.problem, _of_room(expected) or expected.fix)
        fix = _of_room(expected) or (_HOST_FAULTS.get(expected.errno or 0) if isinstance(expected, OSError) else None)
        if not isinstance(expected, OSError) or fix is None:
            raise
        _fail(str(expected), fix)


def _only(error: Exception) -> Exception:
    """What is in a group of one, such as tasks that run together raise where one of them fails."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _of_room(error: BaseException | None) -> str | None:
    """What to do about a disk that is full, where that is why something failed, whatever else is advised about it."""
    while error is not None:
        for number in (errno.ENOSPC, errno.EDQUOT):
            if (isinstance(error, OSError) and error.errno == number) or os.strerror(number) in str(error):
                return _HOST_FAULTS[number]
        if "out of diskspace" in str(error).lower():  # git's words
            return _HOST_FAULTS[errno.ENOSPC]
        error = error.__cause__
    return None


def _interrupt(_: int, frame: FrameType | None) -> None:
    """What Ctrl-C would do now: an event loop has a handler of its own for it."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # ignored, as in the background of a shell
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


_HOST_FAULTS = {
    errno.ENOSPC: "free disk space; nothing finished is lost (lego-rl train --resume RUN)",
    errno.EDQUOT: "free disk space within your quota; nothing finished is lost (lego-rl train --resume RUN)",
    errno.EROFS: "name a folder on a file system that can be written",
    errno.EACCES: "name a file or folder that you may use",
    errno.EPERM: "name a file or folder that you may use",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "name a folder where a file stands now",
    errno.EISDIR: "name a file where a folder stands now",
    errno.EEXIST: "move away what stands there",
    errno.EBUSY: "unmount or move away what stands there",
    errno.EIO: "look at the disk: dmesg",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENFILE: "raise the limit of open files: sysctl fs.file-max",
}
"""Errors of the host that can meet a command anywhere, and what to do about each."""


def _fail(problem: str, fix: str) -> Never:
    typer.echo(f"lego-rl: {plain(' '.join(problem.split()))}", err=True)  # a library's words may be many lines
    if fix:
        typer.echo(f"  fix: {plain(as_called(fix))}", err=True)
    sys.exit(1)
