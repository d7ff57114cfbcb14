"""``lego-rl eval report`` and ``eval compare``: what evaluations came to, from their folders."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from lego_rl.commands.screen import Screen
from lego_rl.commands.text_table import print_table
from lego_rl.errors import ConfigError, RunError
from lego_rl.evaluate.comparison import Comparison, compare
from lego_rl.evaluate.folder import read_evaluation
from lego_rl.evaluate.paired import holm
from lego_rl.evaluate.plan import Plan
from lego_rl.evaluate.results import Cell
from lego_rl.evaluate.trials import EvaluatedTrial, read_trials
from lego_rl.plain_text import plain_line
from lego_rl.report.evaluation.tables import tables_of
from lego_rl.report.evaluation.write import write_evaluation
from lego_rl.rollout.labels import AFTER, BEFORE


def report_folders(folders: Sequence[Path], out: Path | None = None) -> None:
    """Print the report of an evaluation and write it into its folder.

    Args:
        folders: The evaluation's, or those of its shards.
        out: Where the files are written; the first folder by default.

    Raises:
        RunError: A folder holds no evaluation, or a file is damaged.
    """
    evaluation = read_evaluation(folders)
    screen = Screen()
    for table in tables_of(evaluation):
        print_table(screen, table)
        screen.print()
    for path in write_evaluation(evaluation, out or folders[0]):
        screen.print(str(path), soft_wrap=True)


def compare_places(first: str, second: str, *, as_json: bool) -> None:
    """Compare two evaluations, cells, or runs, task by task.

    Args:
        first: ``FOLDER`` or ``FOLDER:CELL``.
        second: Likewise.
        as_json: Print JSON in place of lines.

    Raises:
        RunError: A place holds nothing to compare, or they have no task in common.
    """
    pairs = _pairs(_cells(first), _cells(second))
    found = {name: compare(a, b) for name, (a, b) in pairs.items()}
    adjusted = dict(zip(found, holm([each.p_value for each in found.values()]), strict=True))
    screen = Screen()
    if as_json:
        plain = {
            name: asdict(each) | {"distinguishable": each.distinguishable, "p_value_holm": adjusted[name]}
            for name, each in found.items()
        }
        screen.print(json.dumps(plain, indent=1), soft_wrap=True)
        return
    for note in _differences(first, second):
        screen.print(f"note: {note}", style="yellow", soft_wrap=True)
    for name, each in found.items():
        for line in _lines(name, each, adjusted[name] if len(found) > 1 else None):
            screen.print(plain_line(line), soft_wrap=True)


def _lines(name: str, found: Comparison, adjusted: float | None) -> Sequence[str]:
    first, second = found.first, found.second
    lines = [
        f"{name}: {found.tasks} tasks · {first.solved}/{first.trials} = {first.rate:.3f} → "
        f"{second.solved}/{second.trials} = {second.rate:.3f}"
    ]
    if found.difference is not None and found.interval is not None:
        lines.append(
            f"  difference {found.difference:+.3f} (95 % interval over tasks {found.interval.low:+.3f} to "
            f"{found.interval.high:+.3f}) · sign-flip p = {found.p_value:.4f}"
            + (f" (Holm {adjusted:.4f})" if adjusted is not None else "")
        )
    test = found.mcnemar
    lines.append(
        f"  one attempt a task: {test.only_first} solved by the first alone, {test.only_second} by the second alone · "
        f"McNemar's exact p = {test.p_value:.4f}"
    )
    left_out = [(len(found.only_first), "first"), (len(found.only_second), "second")]
    lines += [f"  {count} tasks have a score on the {side} side alone: left out" for count, side in left_out if count]
    return [*lines, f"  {found.verdict}"]


def _split(place: str) -> tuple[Path, str | None]:
    path, separator, cell = place.rpartition(":")
    if separator and not Path(place).exists():
        return Path(path), cell
    return Path(place), None


def _cells(place: str) -> dict[str, Sequence[EvaluatedTrial]]:
    """The trials of a place, by cell; those of a run have no name."""
    path, wanted = _split(place)
    if Plan.read(path) is None:
        trials = read_trials(path)
        if wanted is None:
            return {"": [trial for trial in trials if trial.label != BEFORE] if _is_training(trials) else trials}
        found = [trial for trial in trials if trial.label == {"before": BEFORE, "after": AFTER}.get(wanted, wanted)]
        if not found:
            labels = ", ".join(sorted({trial.label for trial in trials})[:6])
            raise RunError(f"{path} has no trial of label {wanted!r}", f"it has {labels}")
        return {"": found}
    cells: dict[str, Cell] = {cell.name: cell for cell in read_evaluation([path]).cells}
    if wanted is not None and wanted not in cells:
        raise ConfigError(f"{path} has no cell {wanted!r}", f"it has {', '.join(cells)}")
    return {name: cell.trials for name, cell in cells.items() if wanted in (None, name)}


def _is_training(trials: Sequence[EvaluatedTrial]) -> bool:
    return any(trial.label in (BEFORE, AFTER) for trial in trials)


def _pairs(
    first: dict[str, Sequence[EvaluatedTrial]], second: dict[str, Sequence[EvaluatedTrial]]
) -> dict[str, tuple[Sequence[EvaluatedTrial], Sequence[EvaluatedTrial]]]:
    if len(first) == 1 and len(second) == 1:
        (a, before), (b, after) = next(iter(first.items())), next(iter(second.items()))
        return {f"{a or 'first'} → {b or 'second'}": (before, after)}
    common = [name for name in first if name in second]
    if not common:
        raise RunError(
            "the two have no cell of one name",
            "name one of each, FOLDER:MODEL--HARNESS; eval report lists them",
        )
    return {name: (first[name], second[name]) for name in common}


def _differences(first: str, second: str) -> Sequence[str]:
    """What of the two protocols is not the same."""
    plans = [Plan.read(_split(place)[0]) for place in (first, second)]
    if None in plans:
        return []
    one, other = ({} if plan is None else dict(plan.protocol) for plan in plans)
    differing = [key for key in one if one.get(key) != other.get(key)]
    return [f"{key} is {one.get(key)} in the first and {other.get(key)} in the second" for key in differing]
