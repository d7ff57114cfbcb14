"""The tables of an evaluation's report, as text: the same ones in the terminal, in Markdown and on the page.

Invariant: every rate stands beside its interval, and whatever is left out of one is in the coverage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lego_rl.evaluate.heldout import Score
from lego_rl.evaluate.intervals import wilson
from lego_rl.evaluate.passk import OverTasks
from lego_rl.evaluate.results import Cell, CellResult, Evaluation, result_of
from lego_rl.plain_text import plain_line

_MOST_GROUPS = 40
NOTHING = "–"


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes:
        title: What it is of.
        note: How to read it.
        columns: Headings; the first column is of names, the others of figures.
        rows: As many cells each.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables_of(evaluation: Evaluation) -> list[TextTable]:
    """All tables of a report."""
    results = {cell.name: result_of(cell, evaluation.ks) for cell in evaluation.cells}
    found = [_matrix(evaluation.cells, results, "pass@1, with its 95 % interval")]
    if evaluation.excluded:
        found.append(_without(evaluation))
    found += [_attempts(evaluation, results), _coverage(evaluation.cells, results), _cost(evaluation.cells, results)]
    found += [*_groups(evaluation.cells, results), *_regraded(evaluation), *_excluded(evaluation)]
    return found


def without_excluded(evaluation: Evaluation) -> list[Cell]:
    """The cells without the tasks whose own solution fails here."""
    return [cell.without(tuple(evaluation.excluded), evaluation.attempts) for cell in evaluation.cells]


def _matrix(cells: Sequence[Cell], results: dict[str, CellResult], title: str) -> TextTable:
    models, harnesses = (tuple(dict.fromkeys(getattr(cell, side) for cell in cells)) for side in ("model", "harness"))
    by_place = {(cell.model, cell.harness): results[cell.name] for cell in cells}
    rows = [
        (model, *(_rate(by_place[model, h].score) if (model, h) in by_place else NOTHING for h in harnesses))
        for model in models
    ]
    note = "Of all scored trials; Wilson's interval: how sure the rate is for these tasks."
    return TextTable(title, note, ("model", *harnesses), tuple(rows))


def _without(evaluation: Evaluation) -> TextTable:
    cells = without_excluded(evaluation)
    results = {cell.name: result_of(cell, evaluation.ks) for cell in cells}
    count = len(evaluation.excluded)
    return _matrix(cells, results, f"pass@1 without {count} tasks whose own solution fails here")


def _attempts(evaluation: Evaluation, results: dict[str, CellResult]) -> TextTable:
    ks = evaluation.ks
    columns = ("cell", "tasks", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks if k > 1))
    rows = [
        (
            cell.name,
            str(results[cell.name].tasks),
            *(_over(results[cell.name].pass_at[k]) for k in ks),
            *(_over(results[cell.name].pass_hat[k]) for k in ks if k > 1),
        )
        for cell in evaluation.cells
    ]
    note = (
        "Means over tasks, unbiased: one of k attempts solves (pass@k), all k do (pass^k). In brackets: tasks that are "
        "left out because fewer than k of their attempts have a score."
    )
    return TextTable("pass@k and pass^k", note, columns, tuple(rows))


def _coverage(cells: Sequence[Cell], results: dict[str, CellResult]) -> TextTable:
    rows = []
    for cell in cells:
        found = results[cell.name]
        faults = ", ".join(f"{name} {count}" for name, count in found.faults.items()) or NOTHING
        rows.append((cell.name, f"{found.scored}/{found.launched}", f"{found.coverage:.3f}", faults))
    note = "Trials without a score are in no rate. not_run: the evaluation is not finished."
    return TextTable("coverage", note, ("cell", "scored / launched", "coverage", "not scored"), tuple(rows))


def _cost(cells: Sequence[Cell], results: dict[str, CellResult]) -> TextTable:
    rows = []
    for cell in cells:
        found = results[cell.name]
        rows.append((cell.name, _mean(found.sampled, ".0f"), _mean(found.turns, ".1f"), _mean(found.seconds, ".1f")))
    columns = ("cell", "sampled tokens", "turns", "seconds")
    return TextTable("cost", "Means of a scored trial; seconds are wall-clock.", columns, tuple(rows))


def _groups(cells: Sequence[Cell], results: dict[str, CellResult]) -> Iterator[TextTable]:
    names = sorted({name for found in results.values() for name in found.groups})
    if len(names) < 2:
        return
    shown = names[:_MOST_GROUPS]
    rows = [
        (plain_line(name), *(_solved(results[cell.name].groups.get(name, Score())) for cell in cells)) for name in shown
    ]
    more = "" if len(shown) == len(names) else f" {len(names) - len(shown)} more are in report.json."
    note = f"Solved of scored trials.{more}"
    yield TextTable("by repository or family", note, ("", *(cell.name for cell in cells)), tuple(rows))


def _regraded(evaluation: Evaluation) -> Iterator[TextTable]:
    if not evaluation.regraded:
        return
    rows = [
        (
            name,
            f"{found.agree}/{found.trials}",
            str(len(found.false_zeros)),
            str(len(found.false_ones)),
            str(len(found.undecided)),
            f"{(len(found.false_zeros) - len(found.false_ones)) / found.trials:+.3f}" if found.trials else NOTHING,
        )
        for name, found in evaluation.regraded.items()
    ]
    columns = ("cell", "agree", "false zeros", "false ones", "not graded", "change of pass@1")
    note = "A sample of each cell, graded once more from its patches in fresh sandboxes (lego-rl regrade)."
    yield TextTable("graded again", note, columns, tuple(rows))


def _excluded(evaluation: Evaluation) -> Iterator[TextTable]:
    if evaluation.excluded:
        rows = tuple((plain_line(task), plain_line(why)) for task, why in sorted(evaluation.excluded.items()))
        yield TextTable("tasks whose own solution fails here", "By lego-rl tasks validate.", ("task", "found"), rows)


def _rate(score: Score) -> str:
    if score.rate is None:
        return NOTHING
    interval = wilson(score)
    return f"{score.rate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _solved(score: Score) -> str:
    return NOTHING if score.rate is None else f"{score.solved}/{score.trials} = {score.rate:.3f}"


def _over(found: OverTasks) -> str:
    if found.value is None:
        return NOTHING
    return f"{found.value:.3f}" + (f" ({found.left_out})" if found.left_out else "")


def _mean(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)
