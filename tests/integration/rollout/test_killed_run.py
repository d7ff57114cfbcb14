"""A run that is killed without warning: nothing of it lives on, and it resumes with what it had."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rollout_kit import FIX, POLICY, SCRIPTS, playing, runtime, spec, write_task

from lego_rl.gateway.call_log import CALL_LOG, read_calls
from lego_rl.gateway.template import ChatTemplate
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal, read_journal
from lego_rl.rollout.runner import run_trials
from lego_rl.rollout.spec import TrialSpec

PARTS = ["the fixer", "the bungler", "the sleeper", "the idler"]
NAP = "sleep 50"

RUN = """
import asyncio, sys
from pathlib import Path
from rollout_kit import SCRIPTS
from test_killed_run import batch
asyncio.run(batch(Path(sys.argv[1]), SCRIPTS))
"""


def specs(folder: Path) -> list[TrialSpec]:
    return [spec(write_task(folder / "tasks", part), wall_clock_sec=100.0) for part in PARTS]


async def batch(folder: Path, scripts: Mapping[str, list[str]]) -> list[tuple[Ended, int | None, int]]:
    engine = playing(ChatTemplate.load(POLICY), scripts=scripts)
    trials = runtime(folder / "run", engine, state=folder / "state")
    with Journal(trials.directory.journal) as journal:
        records = await run_trials(specs(folder), trials, journal, concurrency=1)
    return [(record.outcome.ended, record.outcome.reward, record.tries) for record in records]


def nappers() -> list[str]:
    """Processes of any sandbox that sleep as the part says."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.startswith(NAP):
            found.append(line)
    return found


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail("it never came to that")
        time.sleep(0.02)


def test_kill_9_and_resume(tmp_path: Path) -> None:
    assert NAP in SCRIPTS["the sleeper"][1]
    here = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], env=os.environ | {"PYTHONPATH": here}) as run:
        wait_until(nappers, 200)
        run.kill()
    wait_until(lambda: not nappers(), 30)
    journal = read_journal(tmp_path / "run" / "journal")
    assert [entry.kind for entry in journal] == ["trial-started", "trial-scored"] * 2 + ["trial-started"]
    asleep = journal[-1].data["id"]
    said = [
        call.answer.tool_calls[0].arguments for call in read_calls(tmp_path / "run" / "scratch" / asleep / CALL_LOG)
    ]
    assert any(NAP in str(arguments) for arguments in said), "what the killed trial said is on the disk"
    wide_awake = {**SCRIPTS, "the sleeper": [FIX, "Awake."]}
    assert asyncio.run(batch(tmp_path, wide_awake)) == [
        (Ended.FINISHED, 1, 1),
        (Ended.FINISHED, 0, 1),
        (Ended.FINISHED, 1, 2),
        (Ended.FINISHED, 0, 1),
    ]
    scored = [entry.data["id"] for entry in read_journal(tmp_path / "run" / "journal") if entry.kind == "trial-scored"]
    assert sorted(scored) == sorted(one.id for one in specs(tmp_path))
    assert list((tmp_path / "state" / "runs").iterdir()) == []
    assert not list((tmp_path / "run" / "scratch").rglob(CALL_LOG)), "a finished trial has its record"
