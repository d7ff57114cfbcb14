"""``lego-rl report``: every summary of a run, from its trials."""

from pathlib import Path


def run(path: Path) -> None:
    """Recompute the summaries."""
    print(path)
