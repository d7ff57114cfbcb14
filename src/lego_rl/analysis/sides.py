"""Which trials of a run stand side by side: before and after, first step and last, the cells of an evaluation.

Invariant: a set of trials is named by what the run itself says that they are of (labels, and an evaluation's plan).
What is not of any of these is one set by itself, ``trials``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_rl.analysis.read import TrialPlace, trial_places
from lego_rl.evaluate.folder import cell_folders
from lego_rl.evaluate.plan import Plan
from lego_rl.evaluate.review import is_session
from lego_rl.rollout.labels import AFTER, BEFORE, TRAIN

type Sides = Mapping[str, Sequence[TrialPlace]]
"""Name → trials."""

PAIRS = (("before", "after"), ("first step", "last step"), ("first evaluation", "last evaluation"))
"""Sets of one run that are compared with each other."""
_TRIALS, _STEP = "trials", "step"
_HELDOUT = "heldout/"


def sides_of(run: Path) -> Sides:
    """The sets of a run's trials.

    Args:
        run: A run directory, that of a run on verl, or an evaluation's folder.

    Raises:
        RunError: It is none of them, or is damaged.
    """
    plan = Plan.read(run)
    return _of_labels(trial_places(run)) if plan is None else _of_cells(run, plan)


def _of_cells(folder: Path, plan: Plan) -> Sides:
    """The cells of an evaluation; of one with reviews, what was there before them."""
    return {
        cell.name: [
            place
            for shard in cell_folders([folder], cell)
            if (shard / "journal").is_file()
            for place in trial_places(shard)
            if not is_session(place.trial.label)
        ]
        for cell in plan.cells
    }


def _of_labels(places: Sequence[TrialPlace]) -> Sides:
    by_label: dict[str, list[TrialPlace]] = {}
    for place in places:
        by_label.setdefault(place.trial.label, []).append(place)
    names = {BEFORE: "before", AFTER: "after"}
    names |= _ends([label for label in by_label if label.startswith(TRAIN)], ("first step", "last step"), _STEP)
    others = [label for label in by_label if label.startswith(_HELDOUT) and label not in names]
    names |= _ends(others, ("first evaluation", "last evaluation"), "evaluation")
    sides = {name: by_label[label] for label, name in names.items() if label in by_label}
    rest = [place for label, found in by_label.items() if not label.startswith((TRAIN, _HELDOUT)) for place in found]
    return {**sides, **({_TRIALS: rest} if rest else {})}


def _ends(labels: Sequence[str], pair: tuple[str, str], single: str) -> dict[str, str]:
    """Names of the first label and the last, or of the only one."""
    if len(labels) < 2:
        return dict.fromkeys(labels, single)
    return dict(zip((min(labels), max(labels)), pair, strict=True))
