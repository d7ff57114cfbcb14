"""``lego-rl selfcheck``: attacks on sandboxes and honest work in them, as a table or as JSON."""

import json
from collections.abc import Iterator, Sequence

import typer
from rich.table import Table

from lego_rl.commands import interrupts
from lego_rl.commands.check import sandbox_settings
from lego_rl.commands.live_line import LiveLine
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError, SandboxError
from lego_rl.sandbox.environments import ENVIRONMENTS
from lego_rl.selfcheck.attack import Kind
from lego_rl.selfcheck.suite import Findings, check


def sandbox(environment: str, overrides: Sequence[str] = (), *, as_json: bool) -> None:
    """Attack sandboxes and work honestly in them, and say what came of it.

    Args:
        environment: How sandboxes are isolated.
        overrides: ``sandbox.key=value`` strings, as for a recipe.
        as_json: Print JSON, and nothing else on standard output.

    Raises:
        ConfigError: There is no such environment, or no such key.
        SandboxError: An attack succeeded, honest work was wronged, or this machine cannot isolate an agent.
        KeyboardInterrupt: Somebody asked for the end; nothing is left behind.
    """
    if environment not in ENVIRONMENTS:
        raise ConfigError(f"there is no environment {environment!r}", f"choose one of {', '.join(ENVIRONMENTS)}")
    settings = sandbox_settings(environment, overrides)
    with LiveLine(f"attacking sandboxes of {environment}") as live:
        report = interrupts.run(check(settings, live.show))
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=2))
    else:
        console = Screen()
        for table in tables(report):
            console.print(table)
        for line in lines(report):
            console.print(line)
    wrong = [each.attack.id for each in report.succeeded] + [each.control.id for each in report.wronged]
    if wrong:
        raise SandboxError(
            f"{len(report.succeeded)} attacks succeeded and {len(report.wronged)} honest controls were wronged: "
            f"{', '.join(wrong)}",
            "train on nothing before this is mended: report it as a bug, with the output of this command",
        )


def tables(report: Findings) -> Iterator[Table]:
    """Kinds of attacks, and what isolation cannot hold."""
    kinds = Table("attacks", box=None, pad_edge=False)
    for heading in ("counted", "unproven", "succeeded"):
        kinds.add_column(heading, justify="right")
    for kind in Kind:
        tried = [each for each in report.attacked if each.attack.kind is kind]
        counted = sum(each.attack.is_shown_on(report.shown_on) for each in tried)
        kinds.add_row(kind.value, str(counted), str(len(tried) - counted), str(sum(bool(each.why) for each in tried)))
    yield kinds
    forged = Table("unblockable", "rewarded", "seen of it", box=None, pad_edge=False)
    for each in report.forged:
        forged.add_row(each.forgery.id, "yes" if each.rewarded else "no", "; ".join(each.traces) or "nothing")
    yield forged


def lines(report: Findings) -> Iterator[str]:
    """What went wrong, one line each, and the sums."""
    yield from (f"{each.attack.id} succeeded: {each.why}" for each in report.succeeded)
    yield from (f"{each.control.id} was wronged: {each.wrong}" for each in report.wronged)
    yield (
        f"{len(report.proven)} attacks (shown to be live on {report.shown_on}), {len(report.succeeded)} succeeded; "
        f"{len(report.worked)} honest controls, {len(report.wronged)} wronged; {report.seconds:.0f} s"
    )
