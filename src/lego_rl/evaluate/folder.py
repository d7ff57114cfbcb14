"""Reads what an evaluation's folder, or the folders of its shards, hold.

Invariant: shards are of one plan, and no trial counts twice: two folders that both hold one are refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.evaluate.made_from import From
from lego_rl.evaluate.plan import Plan, PlannedCell
from lego_rl.evaluate.regraded_file import RegradedFile
from lego_rl.evaluate.results import Cell, Evaluation, RegradeDelta
from lego_rl.evaluate.review import ReviewedAttempt, is_session
from lego_rl.evaluate.trials import EvaluatedTrial, read_trials
from lego_rl.rollout.faults import FAULT_TABLE

REVIEWS = "reviews.json"
"""In a cell with reviews: which change stands for each attempt."""
DRAFT = "draft"


@dataclass(frozen=True)
class Standing:
    """What became of an attempt that was reviewed.

    Attributes:
        draft: The trial that made the first change.
        final: The trial whose change stands.
        sessions: All trials of the attempt.
        decisions: What each review came to.
        whole: Whether no session was lost to a fault.
    """

    draft: str
    final: str
    sessions: tuple[str, ...]
    decisions: tuple[str, ...]
    whole: bool


def write_reviews(folder: Path, attempts: Iterable[ReviewedAttempt]) -> None:
    """Write down which change stands for each attempt of a cell."""
    found = [
        Standing(
            draft=attempt.candidates[0].spec.id,
            final=attempt.final.spec.id,
            sessions=tuple(record.spec.id for record in attempt.sessions),
            decisions=tuple(decision.value for decision in attempt.decisions),
            whole=attempt.is_whole,
        )
        for attempt in attempts
    ]
    write_text(folder / REVIEWS, _STANDINGS.dump_json(found, indent=1).decode() + "\n")


def reviews_are_whole(folder: Path, drafts: Iterable[str]) -> bool:
    """Whether the reviews of all these drafts of a cell are over, and none was lost to a fault.

    Raises:
        RunError: The file is damaged.
    """
    whole = {standing.draft for standing in _standings(folder / REVIEWS) if standing.whole}
    return whole.issuperset(drafts)


def read_evaluation(folders: Sequence[Path]) -> Evaluation:
    """What an evaluation came to.

    Args:
        folders: Its folder, or those that its shards were run in.

    Raises:
        RunError: A folder holds no evaluation, they hold different ones, or a file is damaged.
    """
    plan = _joined_plan(folders)
    per_cell = plan.attempts * len(plan.tasks)
    cells: list[Cell] = []
    for planned in plan.cells:
        trials = _cell_trials(folders, planned)
        if not planned.review:
            cells.append(Cell(planned.model, planned.harness, tuple(trials), per_cell))
            continue
        drafts = tuple(trial for trial in trials if not is_session(trial.label))
        final = tuple(_standing_trials(folders, planned, trials))
        cells.append(Cell(planned.model, f"{planned.harness}_{DRAFT}", drafts, per_cell))
        cells.append(Cell(planned.model, planned.harness, final, per_cell))
    return Evaluation(
        name=folders[0].resolve().name,
        protocol=plan.protocol,
        attempts=plan.attempts,
        cells=tuple(cells),
        excluded=plan.excluded,
        unvalidated=plan.unvalidated,
        regraded=_regraded(folders, plan.cells),
    )


def _joined_plan(folders: Sequence[Path]) -> Plan:
    plans: list[Plan] = []
    for folder in folders:
        plan = Plan.read(folder)
        if plan is None:
            raise RunError(f"{folder} holds no evaluation", "name the evaluation.dir of a configuration")
        plans.append(plan)
    first = plans[0]
    for folder, plan in zip(folders, plans, strict=True):
        if (dict(plan.protocol), plan.seed, plan.cells) != (dict(first.protocol), first.seed, first.cells):
            raise RunError(f"{folders[0]} and {folder} are of different evaluations", "report them one by one")
    names = dict.fromkeys(task for plan in plans for task in plan.tasks)
    excluded = {task: why for plan in plans for task, why in plan.excluded.items()}
    return replace(
        first,
        attempts=max(plan.attempts for plan in plans),
        tasks=tuple(names),
        excluded=excluded,
        unvalidated=max(plan.unvalidated for plan in plans),
    )


def cell_folders(folders: Sequence[Path], cell: PlannedCell) -> list[Path]:
    """The run directories of a cell."""
    return [shard for folder in folders for shard in sorted((folder / "cells" / cell.name).glob("*"))]


def _cell_trials(folders: Sequence[Path], cell: PlannedCell) -> list[EvaluatedTrial]:
    found: dict[str, EvaluatedTrial] = {}
    for shard in cell_folders(folders, cell):
        for trial in read_trials(shard) if (shard / "journal").is_file() else ():
            if trial.id in found:
                raise RunError(f"trial {trial.id} of cell {cell.name} is there twice", "name each folder once")
            found[trial.id] = trial
    return [found[name] for name in sorted(found)]


def _standing_trials(
    folders: Sequence[Path], cell: PlannedCell, trials: Sequence[EvaluatedTrial]
) -> Iterable[EvaluatedTrial]:
    """One trial for every attempt whose reviews are over: the standing change's, with what all sessions took."""
    by_id = {trial.id: trial for trial in trials}
    for shard in cell_folders(folders, cell):
        for standing in _standings(shard / REVIEWS):
            sessions = [by_id[name] for name in standing.sessions]
            lost = next((each for each in sessions if FAULT_TABLE[each.ended].is_masked), None)
            final = by_id[standing.final]
            yield replace(
                final,
                attempt=by_id[standing.draft].attempt,
                reward=final.reward if standing.whole else None,
                ended=final.ended if standing.whole or lost is None else lost.ended,
                turns=sum(each.turns for each in sessions),
                sampled=sum(each.sampled for each in sessions),
                seconds=sum(each.seconds for each in sessions),
            )


def _standings(path: Path) -> list[Standing]:
    if not path.is_file():
        return []
    try:
        return _STANDINGS.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}", "run the cell again") from error


def _regraded(folders: Sequence[Path], cells: Sequence[PlannedCell]) -> dict[str, RegradeDelta]:
    found: dict[str, RegradeDelta] = {}
    for cell in cells:
        deltas = [RegradedFile(shard, From.PATCH).delta() for shard in cell_folders(folders, cell)]
        if parts := [delta for delta in deltas if delta is not None]:
            found[cell.name] = RegradeDelta(
                trials=sum(each.trials for each in parts),
                agree=sum(each.agree for each in parts),
                false_zeros=tuple(name for each in parts for name in each.false_zeros),
                false_ones=tuple(name for each in parts for name in each.false_ones),
                undecided=tuple(name for each in parts for name in each.undecided),
            )
    return found


_STANDINGS = TypeAdapter(list[Standing])
