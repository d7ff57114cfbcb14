"""Outcomes of trials, as the filter counts them: one row a trial, whichever run it was of.

Invariant: a trial is solved, not solved or *unknown*, and nothing else. Unknown is what an infrastructure fault left
without a reward; it never counts as not solved, for the task had no part in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.errors import TaskError
from lego_rl.tasks.index.file import read_parquet, write_table

VERSION_KEY = b"lego_rl_outcomes"
VERSION = 1

SCHEMA = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("trial", pa.string(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("reward", pa.int8()),
        pa.field("ended", pa.string(), nullable=False),
    ],
    metadata={VERSION_KEY: str(VERSION).encode()},
)
"""Of an outcomes file: the task directory's name, the trial's label, its id and its place in its group, 0 or 1 or null
for unknown, and the row of the fault table."""

_MAKE = "name a run directory, or the outcomes file of one"


@dataclass(frozen=True)
class TrialOutcome:
    """What became of one trial.

    Attributes:
        task: Name of the task directory.
        label: What the trial was part of.
        trial: Its id.
        attempt: Its place in its group.
        reward: 0 or 1; ``None`` where it counts for nothing.
        ended: The row of the fault table.
    """

    task: str
    label: str
    trial: str
    attempt: int
    reward: int | None
    ended: str


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of many trials.

    Attributes:
        table: Of `SCHEMA`, in the order of task, label, attempt and trial; no trial stands twice.
    """

    table: Any

    @classmethod
    def of(cls, outcomes: Sequence[TrialOutcome]) -> Self:
        """Those of trials."""
        columns = [pa.array([getattr(each, field.name) for each in outcomes], field.type) for field in SCHEMA]
        return cls.joined([pa.Table.from_arrays(columns, schema=SCHEMA)])

    @classmethod
    def joined(cls, tables: Sequence[Any]) -> Self:
        """Those of several tables. A trial that stands in more than one counts once, with its reward where one has it.

        Raises:
            TaskError: A trial has two rewards.
        """
        table = pa.concat_tables([SCHEMA.empty_table(), *tables])
        once = table.group_by(SCHEMA.names, use_threads=False).aggregate([])
        known = once.filter(pc.is_valid(once["reward"]))
        if known.num_rows > len(pc.unique(known["trial"])):
            counts = pc.value_counts(known["trial"].combine_chunks())
            name = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
            raise TaskError(f"the trial {name} has more than one outcome", "name one of the two runs")
        left = once.filter(pc.is_null(once["reward"]))
        left = left.filter(pc.invert(pc.is_in(left["trial"], value_set=known["trial"].combine_chunks())))
        each = left.group_by("trial", use_threads=False).aggregate(
            [("task", "min"), ("label", "min"), ("attempt", "min"), ("ended", "min")]
        )
        unknown = pa.table(
            {
                "task": each["task_min"],
                "label": each["label_min"],
                "trial": each["trial"],
                "attempt": each["attempt_min"],
                "reward": pa.nulls(each.num_rows, pa.int8()),
                "ended": each["ended_min"],
            }
        )
        order = [(name, "ascending") for name in ("task", "label", "attempt", "trial")]
        found = pa.concat_tables([known.select(SCHEMA.names).cast(SCHEMA), unknown.cast(SCHEMA)])
        return cls(found.sort_by(order).combine_chunks())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an outcomes file.

        Raises:
            TaskError: It is none, or of another version.
        """
        table = read_parquet(path, _MAKE)
        version = (table.schema.metadata or {}).get(VERSION_KEY)
        if version is None:
            raise TaskError(f"{path} is a Parquet file but holds no outcomes", _MAKE)
        if version != str(VERSION).encode():
            said = version.decode(errors="replace")
            raise TaskError(f"{path} has outcomes of version {said}, this lego-rl reads version {VERSION}", _MAKE)
        if not SCHEMA.equals(table.schema):
            raise TaskError(f"{path} does not have the columns of outcomes: {', '.join(SCHEMA.names)}", _MAKE)
        strange = pc.any(pc.invert(pc.is_in(table["reward"].drop_null(), pa.array([0, 1], pa.int8())))).as_py()
        if strange:
            raise TaskError(f"{path} has a reward that is neither 0 nor 1", _MAKE)
        return cls.joined([table])

    def labelled(self, label: str) -> "Outcomes":
        """Those of a label, and of labels below it: ``train`` has ``train/step-0003``."""
        column = self.table["label"]
        return Outcomes(self.table.filter(pc.or_(pc.equal(column, label), pc.starts_with(column, f"{label}/"))))

    def write(self, path: Path) -> None:
        """Write them.

        Raises:
            TaskError: They cannot be written.
        """
        write_table(self.table, path)

    def __len__(self) -> int:
        return int(self.table.num_rows)
