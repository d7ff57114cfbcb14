"""A run directory for every test of this room."""

from pathlib import Path

import pytest

from lego_rl.rollout.store import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.make(tmp_path / "run")
