"""Which tasks of an index are kept, and how the whole pool is distributed.

Invariant: a task is kept on the trials that are known, in the order of their attempts, the first `of` of them and no
others: which they are does not depend on how they ended. Trials of another content than the index has of the task are
another task's. Trials that faults of the infrastructure took are unknown:
they count neither for a task nor against it, and what is undecided for want of them is not kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.errors import TaskError
from lego_rl.tasks.index.band import Band, Counts, Decision
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.groups import named_alike
from lego_rl.tasks.index.outcomes import Outcomes
from lego_rl.tasks.index.signal import Floats, Prior, expected_signal, fit_prior

NO_REPOSITORY = "(none)"
"""Stands for the repository of a task that names none."""


@dataclass(frozen=True)
class Tally:
    """What is known of every task of an index.

    Attributes:
        solved: ``[tasks]`` of the trials that are counted.
        known: ``[tasks]`` trials that are counted, `Band.of` at most.
        unknown: ``[tasks]`` trials without a reward.
        more: ``[tasks]`` trials with a reward that are not counted, for there are `Band.of` without them.
        attempts: ``[tasks]`` one more than the highest number of a trial; 0 without one.
        elsewhere: Trials of tasks that the index does not have.
        changed: ``[tasks]`` trials of the task as it was before it was changed; they are not counted.
    """

    solved: Counts
    known: Counts
    unknown: Counts
    more: Counts
    attempts: Counts
    elsewhere: int
    changed: Counts


@dataclass(frozen=True)
class Share:
    """A part of the pool.

    Attributes:
        name: Of a repository, or a source.
        tasks: Tasks of it.
        tried: Those with a trial that counts.
        never: Those with `Band.of` trials of which none solved it.
        always: Those with `Band.of` trials that all did.
        kept: Those that are kept.
        undecided: Those that further trials decide.
    """

    name: str
    tasks: int
    tried: int
    never: int
    always: int
    kept: int
    undecided: int


@dataclass(frozen=True)
class Filtered:
    """An index that was looked at.

    Attributes:
        index: All of it.
        band: What is asked for.
        tally: What is known.
        decision: ``[tasks]`` of `Decision`.
        least: ``[tasks]`` further trials that may decide.
        most: ``[tasks]`` further trials that do.
        group: Trials of the next group.
        signal: ``[tasks]`` expected mean absolute advantage of that group.
        prior: Of the pool's solve rates.
        kept: ``[tasks]`` whether it is in the band and has the least signal that is asked for.
    """

    index: Index
    band: Band
    tally: Tally
    decision: Counts
    least: Counts
    most: Counts
    group: int
    signal: Floats
    prior: Prior
    kept: npt.NDArray[np.bool_]

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """``[tasks]`` whether further trials decide."""
        found: npt.NDArray[np.bool_] = self.decision == Decision.UNDECIDED
        return found

    @property
    def histogram(self) -> Counts:
        """``[of + 1]`` tasks with `Band.of` trials, by how many of them solved it."""
        full = self.tally.known == self.band.of
        return np.bincount(self.tally.solved[full], minlength=self.band.of + 1)

    def shares(self, column: str) -> list[Share]:
        """The pool by a column of the index, the largest part first.

        Args:
            column: ``repo`` or ``data_source``.
        """
        codes, names = _parts(self.index, column)
        full, solved = self.tally.known == self.band.of, self.tally.solved
        masks = (
            self.tally.known > 0,
            full & (solved == 0),
            full & (solved == self.band.of),
            self.kept,
            self.undecided,
        )
        counts = [np.bincount(codes, minlength=len(names))]
        counts += [np.bincount(codes[mask], minlength=len(names)) for mask in masks]
        rows = [
            Share(name, *(int(count) for count in row))
            for name, row in zip(names, np.array(counts).T.tolist(), strict=True)
        ]
        return sorted(rows, key=lambda row: (-row.tasks, row.name))

    def decisions(self) -> Any:
        """A table with what is known of every task: one row a task, in the order of the index."""
        return pa.table(
            {
                "instance_id": self.index.ids,
                "decision": [Decision(each).name.lower() for each in self.decision.tolist()],
                "kept": self.kept,
                "solved": self.tally.solved,
                "known": self.tally.known,
                "unknown": self.tally.unknown,
                "more_at_best": self.least,
                "more_at_most": self.most,
                "signal": self.signal,
            }
        )


def filter_index(
    index: Index, outcomes: Outcomes, band: Band, least_signal: float = 0.0, group: int | None = None
) -> Filtered:
    """Decide on every task of an index.

    Args:
        index: The pool.
        outcomes: Trials; those of tasks that the index does not have are counted and left out.
        band: How often a task has to be solved.
        least_signal: Expected mean absolute advantage that it has to have, in [0, 1].
        group: Trials of the group that this is of; `Band.of` where unset.

    Raises:
        TaskError: Two tasks of the index have directories of one name, so that their trials cannot be told apart, or no
            trial is of a task of the index.
    """
    tally = tally_of(index, outcomes, band.of)
    if len(outcomes) and tally.elsewhere == len(outcomes):
        raise TaskError(
            f"none of {len(outcomes)} trials is of a task of the index", "name the runs that were made with this pool"
        )
    if len(outcomes) and tally.elsewhere + int(tally.changed.sum()) == len(outcomes):
        raise TaskError(
            f"none of {len(outcomes)} trials is of a task as the index has it: all are of what was changed since",
            "name the runs that were made with these tasks, or the index that was",
        )
    decision = band.decide(tally.solved, tally.known)
    missing = band.missing(tally.solved, tally.known)
    prior = fit_prior(tally.solved, tally.known)
    size = group or band.of
    signal = expected_signal(tally.solved, tally.known, size, prior)
    kept = (decision == Decision.IN) & (signal >= least_signal)
    return Filtered(index, band, tally, decision, missing.least, missing.most, size, signal, prior, kept)


def tally_of(index: Index, outcomes: Outcomes, of: int) -> Tally:
    """Count the trials of every task.

    Raises:
        TaskError: Two tasks have directories of one name.
    """
    names = [path.name for path in index.paths]
    _check_names(index, names)
    table = outcomes.table
    place = pc.fill_null(pc.index_in(table["task"], value_set=pa.array(names, pa.string())), -1)
    at = place.to_numpy().astype(np.int64)
    reward = pc.fill_null(table["reward"], -1).to_numpy().astype(np.int64)
    size = len(names)
    now = index.column("content_digest").take(pc.if_else(pc.greater_equal(place, 0), place, None))
    differs = pc.fill_null(pc.not_equal(table["content_digest"], now), fill_value=False).to_numpy()
    changed = np.bincount(at[(at >= 0) & differs], minlength=size)
    elsewhere = int((at < 0).sum())
    here = (at >= 0) & ~differs
    graded = here & (reward >= 0)
    counted = graded & (_rank(at, graded) < of)  # outcomes are in the order of their attempts
    attempts = np.zeros(size, dtype=np.int64)
    np.maximum.at(attempts, at[here], table["attempt"].to_numpy()[here] + 1)
    return Tally(
        solved=np.bincount(at[counted & (reward == 1)], minlength=size),
        known=np.bincount(at[counted], minlength=size),
        unknown=np.bincount(at[here & (reward < 0)], minlength=size),
        more=np.bincount(at[graded & ~counted], minlength=size),
        attempts=attempts,
        elsewhere=elsewhere,
        changed=changed,
    )


def _rank(groups: Counts, among: npt.NDArray[np.bool_]) -> Counts:
    """``[n]`` how many of `among` stand before each in its own group; groups lie side by side."""
    before = np.cumsum(among) - among
    starts = np.ones(len(groups), dtype=bool)
    starts[1:] = groups[1:] != groups[:-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(groups)), 0)) if len(groups) else groups
    found: Counts = before - before[first]
    return found


def _check_names(index: Index, names: Sequence[str]) -> None:
    counts = pc.value_counts(pa.array(names, pa.string()))
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        name = twice.field("values")[0].as_py()
        one, other = [str(path) for path in index.paths if path.name == name][:2]
        raise TaskError(
            f"trials of {one} cannot be told from those of {other}: their folders have one name",
            "filter the two pools before you merge their indexes",
        )


def _parts(index: Index, column: str) -> tuple[Counts, list[str]]:
    values = index.column(column)
    named = named_alike(values) if column == "repo" else values
    encoded = pc.fill_null(named, NO_REPOSITORY).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
