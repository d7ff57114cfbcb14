"""``lego-rl tasks index``, ``show``, ``stats``, ``split`` and ``merge``."""

import json
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from rich.table import Table

from lego_rl.commands.kept_apart import keep_apart
from lego_rl.commands.live_line import counting
from lego_rl.commands.screen import Screen
from lego_rl.errors import ConfigError, TaskError
from lego_rl.plain_text import plain_line
from lego_rl.tasks.index.build import build_index
from lego_rl.tasks.index.file import Index
from lego_rl.tasks.index.ops import Unit, merge, split, stats

_WHY_EMPTY = {
    Unit.REPOSITORY: "a repository is in one part as a whole; --by task cuts within it, --seed cuts elsewhere",
    Unit.TASK: "there are few tasks for its weight; --seed cuts elsewhere",
}
MOST_VALUES = 12
"""Values of a column that are printed; the rest are counted together."""


def index(folders: Sequence[Path], out: Path, data_source: str | None, *, strict: bool) -> None:
    """Write the index of task directories and say what was left out of it.

    Raises:
        ConfigError: What is written would be a part of what is read.
        TaskError: No task directory can be used, two are one task, or, where `strict`, one cannot be used.
    """
    keep_apart(folders, {"--out": out})
    with counting("reading tasks") as progress:
        found, left_out = build_index(folders, data_source, progress)
    errors = Screen(stderr=True)
    for each in left_out:
        errors.print(f"left out: {each.path}: {plain_line(each.reason)}", soft_wrap=True)
    if left_out and strict:
        raise TaskError(
            f"{len(left_out)} of {len(found) + len(left_out)} task directories cannot be used",
            "mend them, or leave --strict out",
        )
    found.write(out)
    aside = f", {len(left_out)} left out" if left_out else ""
    Screen().print(f"{len(found)} tasks in {out}{aside}")


def show(path: Path, ids: Sequence[str], most: int) -> None:
    """Print tasks of an index: those named in full, else the first of them in a table.

    Raises:
        TaskError: There is no such index, or no such task in it.
    """
    found = Index.read(path)
    screen = Screen()
    if not ids:
        table = Table("instance", "source", "split", "repository", "base commit", box=None, pad_edge=False)
        for place in range(min(most, len(found))):
            row = found.row(place)
            info = row["extra_info"]
            table.add_row(
                info["instance_id"], row["data_source"], info["split"], row["repo"], (row["base_commit"] or "")[:12]
            )
        screen.print(table)
        screen.print(f"{min(most, len(found))} of {len(found)} tasks")
        return
    places = {name: place for place, name in enumerate(found.ids)}
    for name in ids:
        if name not in places:
            raise TaskError(f"{path} has no task {name}", f"list them with: lego-rl tasks show {path}")
        screen.print(json.dumps(found.row(places[name]), indent=2, ensure_ascii=False), soft_wrap=True)


def show_stats(path: Path) -> None:
    """Print figures of an index.

    Raises:
        TaskError: There is no such index.
    """
    figures = stats(Index.read(path))
    screen = Screen()
    screen.print(f"{figures.tasks} tasks")
    for column, counts in figures.counts.items():
        if not counts:
            continue
        table = Table(column, "tasks", box=None, pad_edge=False)
        for value, count in list(counts.items())[:MOST_VALUES]:
            table.add_row(value, str(count))
        if len(counts) > MOST_VALUES:
            table.add_row(f"and {len(counts) - MOST_VALUES} more", str(sum(list(counts.values())[MOST_VALUES:])))
        screen.print("")
        screen.print(table)
    screen.print("")
    table = Table("what tasks say", "tasks", box=None, pad_edge=False)
    for column, count in figures.filled.items():
        table.add_row(column, str(count))
    screen.print(table)


def cut(path: Path, out: Path, parts: Sequence[str], unit: Unit, seed: int) -> None:
    """Write an index in parts, ``NAME.parquet`` each, below a folder.

    Raises:
        TaskError: There is no such index, or a part cannot be written.
        ConfigError: A part is not ``NAME=WEIGHT``, is named twice, or would take the place of the index or of another.
    """
    weights: dict[str, float] = {}
    for name, weight in map(_part, parts):
        if name in weights:
            raise ConfigError(f"--part {name} is named twice", "name each part once")
        weights[name] = weight
    keep_apart([path], {f"--part {name}": out / f"{name}.parquet" for name in weights})
    screen = Screen()
    for name, part in split(Index.read(path), weights, unit, seed).items():
        part.write(out / f"{name}.parquet")
        screen.print(f"{len(part)} tasks in {out / name}.parquet")
        if not len(part):
            screen.print(f"nothing fell into {name}: {_WHY_EMPTY[unit]}")


def unit_named(name: str) -> Unit:
    """What a split keeps together, by its name.

    Raises:
        ConfigError: There is no such unit.
    """
    try:
        return Unit(name)
    except ValueError as error:
        raise ConfigError(f"a split cannot go by {name}", f"choose from {', '.join(Unit)}") from error


def join(paths: Sequence[Path], out: Path) -> None:
    """Write one index of several.

    Raises:
        ConfigError: It would be written over one of them.
        TaskError: Two of them have one task, or there is no such index.
    """
    keep_apart(paths, {"--out": out})
    merged = merge({path: Index.read(path) for path in paths})
    merged.write(out)
    Screen().print(f"{len(merged)} tasks in {out}")


def _part(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    try:
        share = float(weight)
        if not name or "/" in name or name.startswith(".") or not (isfinite(share) and share > 0):
            raise ValueError
        return name, share
    except ValueError as error:
        raise ConfigError(f"--part {text} is no part", "write it as in --part train=9") from error
