"""``kill -9`` of the runner with eight trials in flight: the next start finds all of it, and touches nothing else."""

from pathlib import Path

from tests.killed_runner import killed_at_random

MOMENTS = 5
"""The long tests, which have the time, have thirty."""


def test_nothing_is_left_of_a_killed_runner(tmp_path: Path) -> None:
    killed_at_random(tmp_path, MOMENTS)
