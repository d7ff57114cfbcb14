"""``lego-rl selfcheck sandbox`` itself: nothing succeeds, nobody is wronged, within three minutes, leaving nothing."""

import json
import os
import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_it_writes_its_tasks_it_leaves_nothing(tmp_path: Path, by: signal.Signals) -> None:
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores Ctrl-C
    try:
        command = [str(Path(sys.executable).with_name("lego-rl")), "selfcheck", "sandbox"]
        started = subprocess.Popen(
            [*command, "--set", f"sandbox.state={tmp_path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, ignored)
    with started as process:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("selfcheck-*/tasks/*")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.005)
        os.kill(process.pid, by)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    assert not list(tmp_path.glob("selfcheck-*"))
