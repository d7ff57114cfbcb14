"""Outcomes of trials, as the filter counts them: one row a trial, whichever run it was of.

Invariant: a trial is solved, not solved or *unknown*, and nothing else. Unknown is what an infrastructure fault left
without a reward; it never counts as not solved, for the task had no part in it. What was sampled once counts once,
wherever it stands, and trials of two policies are never taken for those of one unless both are named.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.errors import TaskError
from lego_rl.tasks.index.file import read_parquet, write_table

VERSION_KEY = b"lego_rl_outcomes"
VERSION = 3

SCHEMA = pa.schema(
    [
        pa.field("task", pa.string(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("harness", pa.string(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("trial", pa.string(), nullable=False),
        pa.field("reward", pa.int8()),
        pa.field("ended", pa.string(), nullable=False),
        pa.field("content_digest", pa.string()),
    ],
    metadata={VERSION_KEY: str(VERSION).encode()},
)
"""Of an outcomes file: the task directory's name; whose trial it was, in which harness, and what it was part of; its
place in its group and its seed; its id; 0 or 1 or null for unknown; the row of the fault
table; and a digest of what the task directory held, null where nobody looked."""

_SAMPLE = ("task", "policy", "label", "attempt", "seed", "content_digest")
"""What makes two trials one sample."""
_ORDER = [(name, "ascending") for name in ("task", "label", "attempt", "policy", "seed", "content_digest", "trial")]
"""A task's trials in the order in which they count: policies that are counted together take turns."""

_SHOWN = 6
_MANY = {"policy": "policies", "label": "labels"}
_MAKE = "name a run directory, or the outcomes file of one"


@dataclass(frozen=True)
class TrialOutcome:
    """What became of one trial.

    Attributes:
        task: Name of the task directory.
        policy: Whose trial it was: a name that stands for weights, sampling, budget and harness.
        harness: Name and version.
        label: What the trial was part of.
        attempt: Its place in its group.
        seed: Of its sampling.
        trial: Its id.
        reward: 0 or 1; ``None`` where it counts for nothing.
        ended: The row of the fault table.
        content_digest: Of what the task directory held (`tasks.content`); ``None`` where nobody looked.
    """

    task: str
    policy: str
    harness: str
    label: str
    attempt: int
    seed: int
    trial: str
    reward: int | None
    ended: str
    content_digest: str | None = None


@dataclass(frozen=True)
class Part:
    """Trials of one policy with one label.

    Attributes:
        policy: Its name.
        harness: Name and version of its harness.
        label: What the trials were part of.
        trials: How many.
    """

    policy: str
    harness: str
    label: str
    trials: int


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of many trials.

    Attributes:
        table: Of `SCHEMA`, in the order of task, label, attempt and policy; no sample stands twice.
        again: ``[trials]`` further rows that were of the same sample.
    """

    table: Any
    again: Any

    @property
    def repeated(self) -> int:
        """Rows that were of samples which stood there already."""
        return int(pc.sum(self.again).as_py() or 0)

    @classmethod
    def of(cls, outcomes: Sequence[TrialOutcome]) -> Self:
        """Those of trials."""
        columns = [pa.array([getattr(each, field.name) for each in outcomes], field.type) for field in SCHEMA]
        return cls.joined([pa.Table.from_arrays(columns, schema=SCHEMA)])

    @classmethod
    def joined(cls, tables: Sequence[Any]) -> Self:
        """Those of several tables. A sample that stands in more than one counts once, with its reward where one has it.

        Raises:
            TaskError: A sample has two rewards.
        """
        table = pa.concat_tables([SCHEMA.empty_table(), *tables])
        is_known = pc.is_valid(table["reward"])
        for name in ("trial", "ended", "harness"):  # of the row with the reward, where there is one
            table = table.append_column(
                f"known_{name}", pc.if_else(is_known, table[name], pa.scalar(None, pa.string()))
            )
        wanted = [(name, "min") for name in ("trial", "ended", "harness")]
        wanted += [(f"known_{name}", "min") for name, _ in wanted] + [("reward", "min"), ("reward", "max")]
        wanted += [("task", "count")]
        each = table.group_by(list(_SAMPLE), use_threads=False).aggregate(wanted)
        differing = each.filter(pc.not_equal(each["reward_min"], each["reward_max"]))
        if len(differing):
            name = differing["known_trial_min"][0].as_py()
            raise TaskError(
                f"the trial {name} has more than one outcome",
                "name one of the two runs; further trials are made with: lego-rl rollout --first-attempt",
            )
        columns = {name: each[name] for name in _SAMPLE} | {"reward": each["reward_min"]}
        for name in ("trial", "ended", "harness"):
            columns[name] = pc.coalesce(each[f"known_{name}_min"], each[f"{name}_min"])
        found = pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)
        again = pc.subtract(each["task_count"], 1)
        order = pc.sort_indices(found, sort_keys=_ORDER)
        return cls(found.take(order).combine_chunks(), again.take(order))

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

    def chosen(self, policies: Sequence[str] = (), labels: Sequence[str] = ()) -> "Outcomes":
        """Those of the named policies and labels, together; a label names those below it too: ``train`` has
        ``train/step-0003``. Where none is named, there has to be one only.

        Raises:
            TaskError: None is named and there are several, or there is none of a name.
        """
        found = self
        if policies:
            found = found._where("policy", policies, pc.equal)
        if labels:
            found = found._where("label", labels, _is_below)
        for what, names in (("policy", policies), ("label", labels)):
            if not names:
                found._check_one(what)
        return found

    def _where(self, what: str, names: Sequence[str], is_of: Callable[[Any, str], Any]) -> "Outcomes":
        column = self.table[what]
        masks = [is_of(column, name) for name in names]
        for name, mask in zip(names, masks, strict=True):
            if not pc.any(mask).as_py():
                known = ", ".join(sorted(pc.unique(column).to_pylist())[:_SHOWN])
                raise TaskError(f"there is no trial of the {what} {name}", f"there are trials of {known or 'none'}")
        mask = reduce(pc.or_, masks)
        return Outcomes(self.table.filter(mask), self.again.filter(mask))

    def _check_one(self, what: str) -> None:
        counts = pc.value_counts(self.table[what].combine_chunks()).to_pylist()
        if len(counts) > 1:
            ordered = sorted(counts, key=lambda each: (-each["counts"], each["values"]))[:_SHOWN]
            said = ", ".join(f"{each['values']} ({each['counts']})" for each in ordered)
            more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
            raise TaskError(
                f"the trials are of {len(counts)} {_MANY[what]}: {said}{more}",
                f"choose one with --{what} NAME, or name each that is to be counted together",
            )

    def parts(self) -> list[Part]:
        """By policy, harness and label, how many trials there are."""
        names = ["policy", "harness", "label"]
        counted = self.table.group_by(names, use_threads=False).aggregate([("trial", "count")])
        order = [(name, "ascending") for name in names]
        return [
            Part(row["policy"], row["harness"], row["label"], row["trial_count"])
            for row in counted.sort_by(order).to_pylist()
        ]

    def write(self, path: Path) -> None:
        """Write them.

        Raises:
            TaskError: They cannot be written.
        """
        write_table(self.table, path)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def _is_below(labels: Any, name: str) -> Any:
    return pc.or_(pc.equal(labels, name), pc.starts_with(labels, f"{name}/"))
