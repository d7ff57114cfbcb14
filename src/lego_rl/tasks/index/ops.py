"""An index in parts and of parts: figures of it, splitting and merging.

Invariant: the parts of a split have every task once, and no two of them a repository; which part a task falls into
depends on its repository's name and the seed alone, so that a pool that grows moves no task from one part to another,
but where a new task is of two repositories at once, or is the first to tell where the name begins in an ``owner-name``.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lego_rl.errors import ConfigError, TaskError
from lego_rl.tasks.index.file import Index, check_names, in_split, numbered
from lego_rl.tasks.index.groups import named_alike, repository_keys


class Unit(StrEnum):
    """What a split keeps together."""

    REPOSITORY = "repository"
    """All tasks of a repository, by whatever they say of it, and of its forks; a task without one goes by itself."""
    TASK = "task"
    """Every task by itself."""


@dataclass(frozen=True)
class Stats:
    """Figures of an index.

    Attributes:
        tasks: How many.
        counts: Column → value → tasks, the most frequent first.
        filled: Column → tasks that have it.
    """

    tasks: int
    counts: Mapping[str, Mapping[str, int]]
    filled: Mapping[str, int]


def stats(index: Index) -> Stats:
    """Count what an index holds."""
    table = index.table
    columns = {
        "data_source": index.column("data_source"),
        "split": pc.struct_field(table["extra_info"], "split").combine_chunks(),
        "source_format": index.column("source_format"),
        "licence": index.column("licence"),
        "repo": named_alike(index.column("repo")),
    }
    filled = {
        name: len(index) - table[name].null_count
        for name in ("repo", "base_commit", "pull_request", "image", "issue_digest", "patch_digest", "licence")
    }
    return Stats(len(index), {name: _counted(column) for name, column in columns.items()}, filled)


def split(index: Index, parts: Mapping[str, float], unit: Unit, seed: int) -> dict[str, Index]:
    """Cut an index into parts; what a part is called is the split of its tasks from then on.

    Args:
        index: The whole.
        parts: Name → weight; weights need not add up to anything.
        unit: What stays together.
        seed: Another one makes another split.

    Raises:
        ConfigError: There is no part, or weights are not positive or too large to be added up.
    """
    if not parts or min(parts.values()) <= 0 or not isfinite(sum(parts.values())):
        raise ConfigError(
            "a split needs parts with a weight above 0, and weights that can be added up",
            "write them as in --part train=90 --part test=10",
        )
    keys = repository_keys(index) if unit is Unit.REPOSITORY else index.ids
    drawn = {key: _draw(key, seed) for key in set(keys)}
    bounds = np.cumsum(list(parts.values())) / sum(parts.values())
    # The last part takes what rounding leaves above the last bound.
    place = np.minimum(np.searchsorted(bounds, [drawn[key] for key in keys], side="right"), len(parts) - 1)
    return {name: Index(in_split(index.take(place == number).table, name)) for number, name in enumerate(parts)}


def merge(indexes: Mapping[Path, Index]) -> Index:
    """One index of several.

    Args:
        indexes: File → index, for messages.

    Raises:
        TaskError: Two of them have one task, by its id or by its directory, or tasks whose directories have one name;
            the message names both.
    """
    for what in ("instance_id", "harbor_task_path"):
        seen: dict[str, Path] = {}
        for file, index in indexes.items():
            values: Sequence[str] = index.info(what)
            if common := seen.keys() & set(values):
                name = min(common)
                raise TaskError(
                    f"{seen[name]} and {file} both have the task {name}", "filter one of them, or leave it out"
                )
            seen |= dict.fromkeys(values, file)
    check_names([path for index in indexes.values() for path in index.paths])
    table = pa.concat_tables([index.table for index in indexes.values()])
    order = pc.sort_indices(pc.struct_field(table["extra_info"], "instance_id"))
    return Index(numbered(table.take(order)))


def _counted(column: Any) -> dict[str, int]:
    counts = pc.value_counts(column).to_pylist()
    named = [(each["values"], each["counts"]) for each in counts if each["values"] is not None]
    return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))


def _draw(key: str, seed: int) -> float:
    """A number in [0, 1) that is the key's own."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{key}".encode()).digest()[:7]) / (1 << 56)
