"""A desk for every test of this room."""

from pathlib import Path

import pytest
from rollout_desk import Desk, desk_in


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Desk:
    return desk_in(tmp_path, monkeypatch, capsys)
