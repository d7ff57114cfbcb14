"""What a run came to, in one small object: ``summary.json``.

Invariant: it is a function of the run directory's records and nothing else, so it can be made again at any time.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from lego_rl.evaluate.heldout import Score, rate_difference, score
from lego_rl.evaluate.intervals import Rise, rise_of
from lego_rl.report.clock import active_seconds
from lego_rl.report.files import RunFiles, Trial
from lego_rl.rollout.labels import AFTER, BEFORE, TRAIN
from lego_rl.rollout.metrics_file import Row


@dataclass(frozen=True)
class Family:
    """One family of held-out tasks before and after training.

    Attributes:
        trained: Whether tasks of the family are trained on; the rates of the others are kept apart.
        before: Before training.
        after: By the last checkpoint.
    """

    trained: bool
    before: Score
    after: Score

    @property
    def rise(self) -> float | None:
        """Difference of the rates; ``None`` where a side has none."""
        return rate_difference(self.before, self.after)


@dataclass(frozen=True)
class Summary:
    """What a run came to. Scores are 0 of 0 where the evaluation has not been run.

    Attributes:
        heldout_before: Held-out tasks of the families that were trained on, before training.
        heldout_after: The same tasks, by the last checkpoint.
        rise: Over the tasks that were tried on both sides; ``None`` until there are two.
        unseen_before: Tasks of the families that are only ever evaluated, before training.
        unseen_after: The same tasks, by the last checkpoint.
        families: Every evaluated family.
        families_risen: Families that were trained on and whose rate rose, over the tasks that were tried on both sides.
        families_trained: Families that were trained on.
        steps: Finished training steps: those whose checkpoint was written.
        steps_planned: Steps of the recipe; ``None`` where it does not say.
        trials_left: Trials of the evaluation after training that have not ended, as far as the one before it tells.
        pearson_min: Smallest correlation of the engine's and the trainer's log-probs; ``None`` before a first step.
        mean_abs_max: Largest mean difference of the two, in nats.
        delivered_fraction_min: Smallest share of sampled tokens that could be trained on.
        minutes: Time at work: rollouts, evaluations and training; pauses of a resumed run do not count.
        minutes_training: The part of it without the evaluations.
        harness: Registry name.
        harness_version: Exact version.
        seed: Of the run.
    """

    heldout_before: Score
    heldout_after: Score
    rise: Rise | None
    unseen_before: Score
    unseen_after: Score
    families: dict[str, Family]
    families_risen: int
    families_trained: int
    steps: int
    steps_planned: int | None
    trials_left: int
    pearson_min: float | None
    mean_abs_max: float | None
    delivered_fraction_min: float | None
    minutes: float
    minutes_training: float
    harness: str
    harness_version: str
    seed: int

    @property
    def missing(self) -> str:
        """What is missing of the run, for people; empty where it is finished."""
        if self.steps_planned is not None and self.steps < self.steps_planned:
            return f"{self.steps} of {self.steps_planned} steps are done"
        return f"trials left of the evaluation after training: {self.trials_left}" if self.trials_left else ""

    def to_json(self) -> str:
        """All fields, by name."""
        return json.dumps(asdict(self), indent=2) + "\n"


def summarise(run: RunFiles) -> Summary:
    """Compute the summary.

    Raises:
        RunError: A file of the run is damaged.
    """
    evaluated = [trial for trial in run.trials if trial.spec.label in (BEFORE, AFTER)]
    trained = run.trained_families
    known = [trial for trial in evaluated if trial.spec.family in trained]
    unseen = [trial for trial in evaluated if trial.spec.family not in trained]
    families = _families(evaluated, trained)
    compared = _families(tried_on_both_sides(known), trained)
    latest = run.trials[-1] if run.trials else None
    training = active_seconds(run.journal, TRAIN) + sum(_values(run.rows, "seconds/training"))
    evaluation = active_seconds(run.journal, BEFORE) + active_seconds(run.journal, AFTER)
    return Summary(
        heldout_before=_score(known, BEFORE),
        heldout_after=_score(known, AFTER),
        rise=rise_of(task_pairs(known)),
        unseen_before=_score(unseen, BEFORE),
        unseen_after=_score(unseen, AFTER),
        families=families,
        families_risen=sum((family.rise or 0) > 0 for family in compared.values()),
        families_trained=sum(family.trained for family in families.values()),
        steps=len(run.rows),
        steps_planned=run.recipe.get("run", {}).get("steps"),
        trials_left=max(0, sum(1 if each.spec.label == BEFORE else -1 for each in evaluated)),
        pearson_min=min(_values(run.rows, "fidelity/pearson_logprobs"), default=None),
        mean_abs_max=max(_values(run.rows, "fidelity/mean_abs"), default=None),
        delivered_fraction_min=min(_values(run.rows, "rollout/delivered_fraction"), default=None),
        minutes=round((training + evaluation) / 60, 2),
        minutes_training=round(training / 60, 2),
        harness=latest.spec.harness.name if latest else str(run.recipe.get("harness", {}).get("name", "")),
        harness_version=latest.harness_version if latest else "",
        seed=int(run.recipe.get("run", {}).get("seed", 0)),
    )


def task_pairs(trials: Sequence[Trial]) -> list[tuple[Score, Score]]:
    """Scores before and after of each task, in the order of their ids."""
    by_task = _by_task(trials)
    return [(_score(by_task[task], BEFORE), _score(by_task[task], AFTER)) for task in sorted(by_task)]


def tried_on_both_sides(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of those tasks that have one that counts both before and after: only these say what rose."""
    tasks = _by_task(trials).values()
    return [trial for each in tasks if _score(each, BEFORE).trials and _score(each, AFTER).trials for trial in each]


def _by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    by_task: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_task[trial.task].append(trial)
    return by_task


def in_order(families: Mapping[str, Family]) -> list[tuple[str, Family]]:
    """Families by name, those that were trained on first."""
    return sorted(families.items(), key=lambda item: (not item[1].trained, item[0]))


def _families(trials: Sequence[Trial], trained: frozenset[str]) -> dict[str, Family]:
    by_family: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_family[trial.spec.family].append(trial)
    return {
        name: Family(name in trained, _score(found, BEFORE), _score(found, AFTER))
        for name, found in sorted(by_family.items())
    }


def _score(trials: Iterable[Trial], label: str) -> Score:
    return score(trial.outcome for trial in trials if trial.spec.label == label)


def _values(rows: Iterable[Row], name: str) -> list[float]:
    return [float(value) for row in rows if isinstance(value := row.get(name), int | float)]
