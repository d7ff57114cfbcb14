"""Which trials of some runs are worth learning from: rejection sampling, and what was rejected why.

Invariant: nothing is chosen from a held-out evaluation, nothing that an infrastructure fault took, and every trial that
was looked at is either chosen or counted by the first rule that it breaks. The order of the runs and of the trials' ids
decides which of several like ones is kept, so the same runs give the same selection.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from lego_rl.rollout.faults import Ended
from lego_rl.rollout.labels import may_be_selected
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.settings import Settings


class SelectionSettings(Settings):
    """What a trial has to be."""

    solved: bool = True
    """It earned 1."""
    finished: bool = True
    """The harness ended by itself, no budget and no error ended it."""
    well_formed: bool = True
    """Every tool call could be parsed, and no answer was cut off."""
    tests_untouched: bool = True
    """Its change is all its own to make: grading kept no file of the task's in its place."""
    max_calls: int | None = Field(default=None, ge=1)
    """Most model calls."""
    per_task: int | None = Field(default=None, ge=1)
    """Most trials of one task."""
    distinct: bool = True
    """Of trials of one task with the same change, the one with the fewest sampled tokens alone."""


@dataclass
class Selected:
    """What came of a selection.

    Attributes:
        chosen: Records, in their order.
        left_out: Rule → trials that broke it first.
        seen: Trials that were looked at.
    """

    chosen: list[TrialRecord] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    seen: int = 0


type _Rule = tuple[str, Callable[[TrialRecord], bool]]


type Judge = Callable[[TrialRecord], str | None]
"""Names the rule that a trial breaks of those that are not known here; ``None`` where it breaks none."""


def no_further_rule(_: TrialRecord) -> None:
    """There is none."""


def select(records: Iterable[TrialRecord], settings: SelectionSettings, further: Judge = no_further_rule) -> Selected:
    """Choose among records.

    Args:
        records: Of one or several runs.
        settings: What is wanted.
        further: Is asked of trials that break no rule of these settings, such as what their conversations say.
    """
    found, rules = Selected(), list(_rules(settings))
    for record in records:
        found.seen += 1
        broken = next((name for name, holds in rules if not holds(record)), None) or further(record)
        if broken is None:
            found.chosen.append(record)
        else:
            found.left_out[broken] += 1
    if settings.distinct:
        found.chosen = _limited(found, found.chosen, _same_change, "same_change", 1)
    if settings.per_task is not None:
        found.chosen = _limited(
            found, found.chosen, lambda record: record.spec.task.name, "per_task", settings.per_task
        )
    return found


def _rules(settings: SelectionSettings) -> Iterator[_Rule]:
    yield "held_out", lambda record: may_be_selected(record.spec.label)
    yield "fault", lambda record: record.outcome.is_trained
    if settings.solved:
        yield "not_solved", lambda record: record.outcome.reward == 1
    if settings.finished:
        yield "not_finished", lambda record: record.outcome.ended is Ended.FINISHED
    if settings.well_formed:
        yield "malformed", lambda record: not (record.accounting.tool_parse_faults or record.accounting.truncated)
    if settings.tests_untouched:
        yield "tests_touched", lambda record: not (record.outcome.verdict and record.outcome.verdict.rolled_back)
    if settings.max_calls is not None:
        most = settings.max_calls
        yield "too_long", lambda record: record.accounting.calls <= most


def _limited(
    found: Selected, records: Sequence[TrialRecord], key: Callable[[TrialRecord], str], rule: str, most: int
) -> list[TrialRecord]:
    """At most so many of each key, those with the fewest sampled tokens first; in their own order."""
    by_key: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        by_key.setdefault(key(record), []).append(at)
    kept = {
        at
        for places in by_key.values()
        for at in sorted(places, key=lambda at: (records[at].accounting.sampled_tokens, at))[:most]
    }
    found.left_out[rule] += len(records) - len(kept)
    found.left_out += Counter()  # without rules that nothing broke
    return [record for at, record in enumerate(records) if at in kept]


def _task_of(record: TrialRecord) -> str:
    return record.spec.task.name


def _same_change(record: TrialRecord) -> str:
    """Names a task and a change; a trial without one is like no other."""
    if record.patch is None:
        return record.spec.id
    digest = hashlib.sha256()
    for change in record.patch.changes:
        digest.update(f"{change.path}\0{change.kind}\0{change.executable}\0".encode(errors="surrogateescape"))
        digest.update(change.content)
    return f"{record.spec.task.name} {digest.hexdigest()}"
