"""``lego-rl tasks``: the built-in pool as files."""

from collections import Counter
from pathlib import Path

from rich.table import Table

from lego_rl.commands.screen import Screen
from lego_rl.tasks.build import build_pool
from lego_rl.tasks.pool import load_pool


def build(out: Path) -> None:
    """Write the built-in pool and print its splits and families.

    Raises:
        TaskError: The folder exists and is not empty, or it cannot be written.
    """
    build_pool(out)
    splits = load_pool(out)
    table = Table("family", *splits, box=None, pad_edge=False)
    counts = {split: Counter(task.family for task in tasks) for split, tasks in splits.items()}
    for family in sorted({task.family for tasks in splits.values() for task in tasks}):
        table.add_row(family, *(str(counts[split][family] or "") for split in splits))
    Screen().print(table)
    Screen().print(f"{sum(map(len, splits.values()))} tasks in {out}")
