"""``lego-rl tasks filter``: keeps the tasks of a band of solve rates, and prints how the whole pool is distributed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.program import program
from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError
from lego_rl.tasks.index.band import Band
from lego_rl.tasks.index.current import named
from lego_rl.tasks.index.file import Index, write_table
from lego_rl.tasks.index.filter import Filtered, Share, filter_index
from lego_rl.tasks.index.outcomes import Outcomes

MOST_PARTS = 30
"""Repositories that are printed; the rest are counted together."""

MOST_UNDECIDED = 100
"""Undecided tasks that are printed; ``--decisions`` has all of them."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a task, and whose trials say so.

    Attributes:
        band: How often it has to be solved.
        least_signal: Expected mean absolute advantage that it has to have, in [0, 1].
        group: Trials of the group that this is of.
        policies: Names of policies, whose trials are counted together; empty where there is one only.
        labels: Labels of trials, likewise.
    """

    band: Band
    least_signal: float
    group: int
    policies: Sequence[str] = ()
    labels: Sequence[str] = ()


def run(
    path: Path,
    runs: Sequence[Path],
    wanted: Wanted,
    *,
    out: Path | None,
    undecided: Path | None,
    decisions: Path | None,
) -> None:
    """Filter an index and print what was found.

    Args:
        path: The index.
        runs: Run directories and outcomes files.
        wanted: What is asked of a task.
        out: Where the index of what is kept is written.
        undecided: Where the index of what further trials decide is written.
        decisions: Where the table of every task is written.

    Raises:
        LegoError: The index or a run cannot be read, a file cannot be written, or one is both.
    """
    if not 0.0 <= wanted.least_signal <= 1.0:
        raise ConfigError(f"--signal {wanted.least_signal} is no advantage", "choose a number from 0 to 1")
    keep_apart([path, *runs], {"--out": out, "--undecided": undecided, "--decisions": decisions})
    outcomes = read_outcomes(runs).chosen(wanted.policies, wanted.labels)
    found = filter_index(Index.read(path), outcomes, wanted.band, wanted.least_signal, wanted.group)
    screen = Screen()
    _print_whose(outcomes, screen)
    _print(found, screen)
    if found.undecided.any():
        _print_more(found, undecided or Path("UNDECIDED"), screen)
    for file, index in ((out, found.index.take(found.kept)), (undecided, found.index.take(found.undecided))):
        if file is not None:
            index.write(file)
            screen.print(f"{len(index)} tasks in {file}")
    if decisions is not None:
        write_table(found.decisions(), decisions)
        screen.print(f"every task in {decisions}")


def _print_whose(outcomes: Outcomes, screen: Screen) -> None:
    """Whose trials are counted."""
    for row in outcomes.parts():
        screen.print(f"policy {row.policy} in {row.harness}, label {row.label}: {row.trials} trials")
    if outcomes.repeated:
        screen.print(f"{outcomes.repeated} stand in more than one of the runs, and count once")


def _print_more(found: Filtered, file: Path, screen: Screen) -> None:
    """How to run what decides."""
    at = found.undecided
    tally, most = found.tally, found.most
    # A trial without a reward is run again in its own folder; elsewhere another has to take its place.
    same = int((tally.attempts + np.maximum(0, most - tally.unknown))[at].max())
    first, more = int(tally.attempts[at].max()), int(most[at].max())
    command, elsewhere = f"{program()} rollout RECIPE {file}", f"--out ANOTHER -n {more} --first-attempt {first}"
    if tally.changed[at].any():  # a folder has trials of one content of a task
        screen.print(f"run them with: {command} {elsewhere}", soft_wrap=True)
    else:
        screen.print(f"run them with: {command} --out THE-SAME-FOLDER -n {same}, or: {elsewhere}", soft_wrap=True)


def _print(found: Filtered, screen: Screen) -> None:
    tally, of, tasks = found.tally, found.band.of, len(found.index)
    full = int(found.histogram.sum())
    table = Table(f"solved of {of}", "tasks", "share", box=None, pad_edge=False)
    for solved, count in enumerate(found.histogram.tolist()):
        name = {0: "never", of: "always"}.get(solved, str(solved))
        table.add_row(name, str(count), f"{count / full:.1%}" if full else "")
    screen.print(table)
    screen.print(f"{full} of {tasks} tasks have {of} trials with a reward, {tasks - full} have fewer")
    changed = int(tally.changed.sum())
    trials = int(tally.known.sum() + tally.more.sum() + tally.unknown.sum()) + tally.elsewhere + changed
    if changed:
        ids = np.array(found.index.ids)[tally.changed > 0].tolist()
        screen.print(
            f"{changed} trials are of {len(ids)} tasks as they were before they were changed, and are "
            f"not counted: {named(ids)}",
            soft_wrap=True,
        )
    screen.print(
        f"{trials} trials: {int(tally.known.sum())} counted, {int(tally.more.sum())} more than {of} of a task, "
        f"{int(tally.unknown.sum())} unknown (infrastructure), {tally.elsewhere} of tasks that are not in the index, "
        f"{changed} of tasks that were changed since",
        soft_wrap=True,
    )
    for title, column in (("repository", "repo"), ("source", "data_source")):
        screen.print("")
        screen.print(_shares(title, found.shares(column)))
    screen.print("")
    low, high = found.band.low, found.band.high
    screen.print(f"kept: {int(found.kept.sum())} of {tasks} (solved {low}..{high} of {of})")
    if not found.kept.any():
        more = ", or the trials that decide more of them" if found.undecided.any() else ""
        screen.print(f"nothing to train on: try another band with --solved, or another policy{more}")
    prior = found.prior
    whole, kept = (float(part.mean()) if part.size else 0.0 for part in (found.signal, found.signal[found.kept]))
    screen.print(
        f"expected advantage in a group of {found.group}: {whole:.3f} over the pool, {kept:.3f} over what is kept "
        f"(solve rates fitted by beta({prior.solved:.2f}, {prior.failed:.2f}))"
    )
    undecided = found.undecided
    if undecided.any():
        screen.print(
            f"undecided: {int(undecided.sum())}; {int(found.most[undecided].sum())} more trials decide all of them, "
            f"{int(found.least[undecided].sum())} at best"
        )
        _print_undecided(found, screen)


def _print_undecided(found: Filtered, screen: Screen) -> None:
    """Undecided tasks, with what they lack."""
    table = Table("undecided", "solved", "known", "unknown", "more trials", box=None, pad_edge=False)
    ids = found.index.ids
    places = found.undecided.nonzero()[0].tolist()
    for place in places[:MOST_UNDECIDED]:
        least, most = int(found.least[place]), int(found.most[place])
        table.add_row(
            ids[place],
            str(found.tally.solved[place]),
            str(found.tally.known[place]),
            str(found.tally.unknown[place]),
            str(most) if least == most else f"{least} to {most}",
        )
    screen.print(table)
    if len(places) > MOST_UNDECIDED:
        screen.print(f"and {len(places) - MOST_UNDECIDED} more: --decisions FILE has what every task lacks")


def _shares(title: str, shares: Sequence[Share]) -> Table:
    table = Table(
        title, "tasks", "tried", "never", "always", "kept", "undecided", box=None, pad_edge=False
    )  # fmt: skip
    shown, rest = shares[:MOST_PARTS], shares[MOST_PARTS:]
    for share in shown:
        table.add_row(share.name, *map(str, _numbers(share)))
    if rest:
        summed = [sum(column) for column in zip(*map(_numbers, rest), strict=True)]
        table.add_row(f"and {len(rest)} more", *map(str, summed))
    return table


def _numbers(share: Share) -> tuple[int, ...]:
    return share.tasks, share.tried, share.never, share.always, share.kept, share.undecided
