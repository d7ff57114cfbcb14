"""``lego-rl selfcheck sandbox`` itself: nothing succeeds, nobody is wronged, within three minutes, leaving nothing."""

import json
from pathlib import Path

import pytest

from lego_rl.cli import app
from lego_rl.sandbox.state import State


@pytest.mark.timeout(600)
def test_everything_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        app(["selfcheck", "sandbox", "--json"], standalone_mode=False)
    finally:
        found = json.loads(capsys.readouterr().out)
        print(json.dumps(found))
    assert (found["succeeded"], found["wronged"]) == ([], [])
    assert found["attacks"] >= 40
    assert min(found["kinds"].values()) >= 3
    assert found["controls"] >= 16
    assert found["seconds"] <= 180
    assert not list(State.default().root.glob("selfcheck-*"))
