"""``lego-rl tasks filter``: keeps the tasks of a band of solve rates, and prints how the whole pool is distributed."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from lego_rl.commands.run_outcomes import read_outcomes
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError
from lego_rl.tasks.index.band import Band
from lego_rl.tasks.index.file import Index, write_table
from lego_rl.tasks.index.filter import Filtered, Share, filter_index

MOST_PARTS = 30
"""Repositories that are printed; the rest are counted together."""

MOST_UNDECIDED = 100
"""Undecided tasks that are printed; ``--decisions`` has all of them."""


def run(
    path: Path,
    runs: Sequence[Path],
    band: Band,
    least_signal: float,
    label: str | None,
    out: Path | None,
    undecided: Path | None,
    decisions: Path | None,
) -> None:
    """Filter an index and print what was found.

    Args:
        path: The index.
        runs: Run directories and outcomes files.
        band: How often a task has to be solved.
        least_signal: Expected mean absolute advantage that it has to have.
        label: Only trials of this label.
        out: Where the index of what is kept is written.
        undecided: Where the index of what further trials decide is written.
        decisions: Where the table of every task is written.

    Raises:
        LegoError: The index or a run cannot be read, or a file cannot be written.
    """
    if not 0.0 <= least_signal <= 1.0:
        raise ConfigError(f"--signal {least_signal} is no advantage", "choose a number from 0 to 1")
    found = filter_index(Index.read(path), read_outcomes(runs, label), band, least_signal)
    _print(found, Screen())
    for file, index in ((out, found.index.take(found.kept)), (undecided, found.index.take(found.undecided))):
        if file is not None:
            index.write(file)
            Screen().print(f"{len(index)} tasks in {file}")
    if decisions is not None:
        write_table(found.decisions(), decisions)
        Screen().print(f"every task in {decisions}")


def _print(found: Filtered, screen: Screen) -> None:
    tally, of, tasks = found.tally, found.band.of, len(found.index)
    full = int(found.histogram.sum())
    table = Table(f"solved of {of}", "tasks", "share", box=None, pad_edge=False)
    for solved, count in enumerate(found.histogram.tolist()):
        name = {0: "never", of: "always"}.get(solved, str(solved))
        table.add_row(name, str(count), f"{count / full:.1%}" if full else "")
    screen.print(table)
    screen.print(f"{full} of {tasks} tasks have {of} trials with a reward, {tasks - full} have fewer")
    trials = int(tally.known.sum() + tally.more.sum() + tally.unknown.sum())
    screen.print(
        f"{trials} trials: {int(tally.known.sum())} counted, {int(tally.more.sum())} more than {of} of a task, "
        f"{int(tally.unknown.sum())} unknown (infrastructure), {tally.elsewhere} of tasks that are not in the index"
    )
    for title, column in (("repository", "repo"), ("source", "data_source")):
        screen.print("")
        screen.print(_shares(title, found.shares(column)))
    screen.print("")
    low, high = found.band.low, found.band.high
    screen.print(f"kept: {int(found.kept.sum())} of {tasks} (solved {low}..{high} of {of})")
    prior = found.prior
    whole, kept = (float(part.mean()) if part.size else 0.0 for part in (found.signal, found.signal[found.kept]))
    screen.print(
        f"expected advantage: {whole:.3f} over the pool, {kept:.3f} over what is kept "
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
