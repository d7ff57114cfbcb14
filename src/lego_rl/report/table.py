"""The table that ends a run in the terminal: held-out solve rate before and after, family by family."""

from rich.table import Table
from rich.text import Text

from lego_rl.evaluate.heldout import Score, rate_difference
from lego_rl.plain_text import plain
from lego_rl.report.summary import Summary, in_order


def before_after(summary: Summary) -> Table:
    """Families that were trained on, then unseen ones, then the sums. The intervals are on the page."""
    table = Table("family", box=None, pad_edge=False, title="held-out solve rate", title_justify="left")
    for heading in ("before", "after", "rise"):
        table.add_column(heading, justify="right")
    for name, family in in_order(summary.families):
        note = "" if family.trained else " (unseen)"
        _row(table, plain(name) + note, family.before, family.after)
    table.add_section()
    _row(table, "all trained families", summary.heldout_before, summary.heldout_after, style="bold")
    if summary.unseen_before.trials:
        _row(table, "all unseen families", summary.unseen_before, summary.unseen_after, style="bold")
    return table


def closing_line(summary: Summary) -> str:
    """The rise with its interval, and what kept it honest, in one line."""
    parts: list[str] = [f"unfinished: {summary.missing}"] if summary.missing else []
    if summary.steps_planned == 0:
        parts.append("no step was trained: before and after are two tries of one policy")
    elif summary.rise is not None:
        low, high = summary.rise.interval.low, summary.rise.interval.high
        parts.append(f"rise {summary.rise.mean:+.3f} (95 % interval over tasks {low:+.3f} to {high:+.3f})")
        parts.append(f"{summary.families_risen} of {summary.families_trained} families rose")
    if summary.pearson_min is not None:
        parts.append(f"smallest Pearson of log-probs {summary.pearson_min:.6f}")
    return " · ".join([*parts, f"{summary.minutes:.1f} min"])


def _row(table: Table, name: str, before: Score, after: Score, style: str = "") -> None:
    rise = Text("–")
    difference = rate_difference(before, after)
    if difference is not None:
        rise = Text(f"{difference:+.3f}", style="green" if difference > 0 else "red" if difference < 0 else "")
    table.add_row(Text(name), _cell(before), _cell(after), rise, style=style)


def _cell(score: Score) -> Text:
    if score.rate is None:
        return Text("–")
    return Text(f"{score.solved}/{score.trials} = {score.rate:.3f}")
