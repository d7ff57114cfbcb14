"""``kill -9`` of the runner at thirty random moments, with eight trials in flight."""

from pathlib import Path

import pytest

from tests.killed_runner import killed_at_random


@pytest.mark.timeout(1800)
def test_nothing_is_left_of_thirty_killed_runners(tmp_path: Path) -> None:
    killed_at_random(tmp_path, 30)
