"""A resumed run shows what it does not measure again."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lego_rl.commands.execute import show_before
from lego_rl.commands.progress import ConsoleProgress
from lego_rl.commands.screen import Screen
from lego_rl.gateway.budget import Budget
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds, Reward, TrialRecord
from lego_rl.rollout.progress import BatchStarted
from lego_rl.rollout.settled import SCORED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory


def record(label: str, split: str, attempt: int, reward: Reward | None) -> TrialRecord:
    spec = TrialSpec(Path("t"), label, attempt, 5, 0, 1.0, Budget(), HarnessChoice("none"), split=split)
    return TrialRecord(spec, Outcome(reward, Ended.FINISHED, None, ""), None, PhaseSeconds())


def counted(directory: RunDirectory, record: TrialRecord) -> None:
    directory.store.save(record)
    with Journal(directory.journal) as journal:
        journal.append(SCORED, {"id": record.spec.id, "try": 1, "ended": record.outcome.ended.value})


@pytest.mark.parametrize("target", ["| head -c 1", "> /dev/full"])
def test_output_that_nobody_takes_ends_no_run(target: str) -> None:
    program = (
        "import sys, time; from lego_rl.commands.progress import ConsoleProgress\n"
        "with ConsoleProgress(8) as progress:\n"
        "    for step in range(4):\n"
        "        progress.stepped(step, {'rollout/trials': 32})\n"
        "        time.sleep(0.3)\n"
        "print('went on', file=sys.stderr)\n"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {target}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[:1] == ["went on"]


def test_every_step_shows_the_solve_rates_that_were_measured_before(tmp_path: Path) -> None:
    directory = RunDirectory.make(tmp_path / "run")
    rewards: list[Reward | None] = [1, 0, 0, None]
    for attempt, reward in enumerate(rewards):
        counted(directory, record("heldout/before", "heldout", attempt, reward))
        counted(directory, record("train/step-0000", "heldout", attempt, 1))
    directory.store.save(record("heldout/before", "heldout", len(rewards), 1))  # a kill came before its journal entry
    console = Screen(width=200, record=True)
    progress = ConsoleProgress(8, console)
    show_before(directory, ["heldout", "unseen"], progress)
    progress.stepped(4, {"rollout/trials": 32})
    before, step = console.export_text().splitlines()
    assert before.startswith("heldout/before · heldout · solved 1/3 = 0.333")
    assert "heldout 0.333" in step
    assert "unseen" not in step


@pytest.mark.parametrize(
    ("loaded", "line"),
    [
        (0, "heldout/before · 24 trials · 8 at a time"),
        (20, "heldout/before · 24 trials · 4 at a time · 20 have ended before"),
        (24, "heldout/before · 24 trials · all of them have ended before"),
    ],
)
def test_a_batch_is_announced_before_its_first_trial_ends(loaded: int, line: str) -> None:
    console = Screen(width=200, record=True)
    progress = ConsoleProgress(8, console)
    progress.trial(BatchStarted("heldout/before", total=24, loaded=loaded, concurrency=8))
    assert console.export_text().splitlines() == [line]


def test_the_time_of_a_line_is_that_of_the_command() -> None:
    program = (
        "import time; time.sleep(2.5); from lego_rl.commands.progress import ConsoleProgress\n"
        "ConsoleProgress(8).stepped(0, {})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    minutes, _, seconds = done.stdout.strip().rpartition(" · ")[2].partition(":")
    assert int(minutes) * 60 + int(seconds) >= 2
