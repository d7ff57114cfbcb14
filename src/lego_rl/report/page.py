"""``report.html``: one self-contained page. It has no script, loads nothing, and tells the browser to allow neither."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from lego_rl.analysis.behaviour import Behaviour
from lego_rl.evaluate.heldout import Score, rate_difference
from lego_rl.evaluate.intervals import Interval, wilson
from lego_rl.plain_text import plain
from lego_rl.report.behaviour import behaviour_table
from lego_rl.report.curves import charts
from lego_rl.report.cut_text import cut
from lego_rl.report.excerpts import compare
from lego_rl.report.files import RunFiles
from lego_rl.report.summary import Summary, in_order
from lego_rl.rollout.faults import FAULT_TABLE
from lego_rl.rollout.labels import AFTER, BEFORE, TRAIN

_GREY, _BLUE = 4, 0
_TABLE_LEFT, _TABLE_WIDTH = 8, 204


@dataclass(frozen=True)
class Figure:
    """One headline number."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Mark:
    """A rate and its interval in a table's small picture."""

    at: float
    low: float
    high: float
    y: int
    colour: int


@dataclass(frozen=True)
class FamilyRow:
    """One row of the table of families."""

    name: str
    note: str
    before: Score
    after: Score
    total: bool = False

    @property
    def rise(self) -> str:
        """Difference of the rates, with its sign."""
        difference = rate_difference(self.before, self.after)
        return "–" if difference is None else f"{difference:+.3f}"

    @property
    def tone(self) -> str:
        """Whether the rate rose or fell."""
        difference = rate_difference(self.before, self.after)
        if not difference:
            return ""
        return "good" if difference > 0 else "bad"

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The two rates that there are trials for."""
        sides = ((self.before, 7, _GREY), (self.after, 15, _BLUE))
        return tuple(
            _mark(score.rate, wilson(score), y, colour) for score, y, colour in sides if score.rate is not None
        )


@dataclass(frozen=True)
class EndingRow:
    """How many trials ended in one row of the fault table, for each kind of trial."""

    ended: str
    counts: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Endings:
    """The table of how trials ended."""

    columns: tuple[str, ...]
    rows: tuple[EndingRow, ...]


def render(run: RunFiles, summary: Summary, behaviour: Sequence[Behaviour]) -> str:
    """The page of a run.

    Raises:
        RunError: A file of the run is damaged.
    """
    environment = Environment(
        loader=PackageLoader("lego_rl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    harness = f"{summary.harness} {summary.harness_version}".strip()
    return environment.get_template("report.html.jinja").render(
        title=f"Run {plain(run.directory.path.resolve().name)}",
        subtitle=f"{harness} · seed {summary.seed} · {summary.steps} steps · {len(run.trials)} trials"
        + (f" · unfinished: {summary.missing}" if summary.missing else ""),
        figures=_figures(summary),
        charts=charts(run.rows, summary, run.pearson_gate),
        families=_families(summary),
        endings=_endings(run),
        behaviour=[behaviour_table(each) for each in behaviour],
        comparisons=compare(run),
        recipe=cut(run.directory.recipe.read_text(encoding="utf-8"), 20_000),
    )


def _figures(summary: Summary) -> list[Figure]:
    before, after, rise = summary.heldout_before, summary.heldout_after, summary.rise
    figures = [
        Figure(
            "held-out solve rate",
            f"{_rate(before)} → {_rate(after)}",
            f"rise {rise.mean:+.3f} [{rise.interval.low:+.3f}, {rise.interval.high:+.3f}]"
            if rise
            else "no rise until two tasks were tried before and after",
        ),
        Figure("families that rose", f"{summary.families_risen} of {summary.families_trained}", "held-out instances"),
    ]
    if summary.unseen_before.trials:
        rates = f"{_rate(summary.unseen_before)} → {_rate(summary.unseen_after)}"
        figures.append(Figure("unseen families", rates, "never trained on"))
    if summary.pearson_min is not None and summary.mean_abs_max is not None:
        note = f"smallest Pearson; largest mean |Δ| {summary.mean_abs_max:.1e}"
        figures.append(Figure("engine = trainer", f"{summary.pearson_min:.6f}", note))
    if summary.delivered_fraction_min is not None:
        figures.append(Figure("delivered", f"{summary.delivered_fraction_min:.3f}", "least trainable ÷ sampled tokens"))
    note = f"{summary.minutes_training:.1f} without the evaluations"
    return [*figures, Figure("minutes", f"{summary.minutes:.1f}", note)]


def _families(summary: Summary) -> list[FamilyRow]:
    rows = [
        FamilyRow(plain(name), "" if family.trained else "unseen", family.before, family.after)
        for name, family in in_order(summary.families)
    ]
    rows.append(FamilyRow("all trained families", "", summary.heldout_before, summary.heldout_after, total=True))
    if summary.unseen_before.trials:
        rows.append(FamilyRow("all unseen families", "", summary.unseen_before, summary.unseen_after, total=True))
    return rows


def _mark(rate: float, interval: Interval, y: int, colour: int) -> Mark:
    at, low, high = (round(_TABLE_LEFT + x * _TABLE_WIDTH, 1) for x in (rate, interval.low, interval.high))
    return Mark(at, low, high, y, colour)


def _endings(run: RunFiles) -> Endings:
    columns = {"training": TRAIN, "held-out before": BEFORE, "held-out after": AFTER}
    counts = {
        name: Counter(trial.outcome.ended for trial in run.trials if trial.spec.label.startswith(label))
        for name, label in columns.items()
    }
    rows = [
        EndingRow(ended.value, tuple(counts[name][ended] for name in columns), row.meaning)
        for ended, row in FAULT_TABLE.items()
        if any(counts[name][ended] for name in columns)
    ]
    return Endings(tuple(columns), tuple(rows))


def _rate(score: Score) -> str:
    return "–" if score.rate is None else f"{score.rate:.3f}"
