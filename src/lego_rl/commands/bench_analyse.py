"""``lego-rl bench analyse``: an evaluation of long trials, reported, compared and analysed; JSON on standard output."""

import bz2
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from pydantic import TypeAdapter

from lego_rl.bench.transcripts import Texts
from lego_rl.errors import RunError
from lego_rl.evaluate.plan import Plan, PlannedCell
from lego_rl.gateway.budget import Budget
from lego_rl.gateway.store import TRAJECTORY_FILE
from lego_rl.gateway.transcript_store import CHAT_CALLS_FILE
from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Journal
from lego_rl.rollout.outcome import Outcome, PhaseSeconds
from lego_rl.rollout.settled import SCORED
from lego_rl.rollout.spec import HarnessChoice, TrialSpec
from lego_rl.rollout.store import RunDirectory
from lego_rl.rollout.trial_folder import FORMAT, OUTCOME_FILE, OutcomeFile

_OUTCOME = TypeAdapter(OutcomeFile)
_ATTEMPTS = 8
_CELLS = (PlannedCell("first", "claude-code"), PlannedCell("second", "claude-code"))
_LOOK_SECONDS = 0.5
_CALLS = json.dumps({"format": 1, "calls": []}).encode()


def analyse(trials: int, turns: int, folder: Path | None) -> None:
    """Make an evaluation and print what reading it took.

    Args:
        trials: Of the whole evaluation, in two cells.
        turns: Model calls of each.
        folder: Where to make it, and to leave it; a temporary folder by default.

    Raises:
        RunError: A command failed, or the folder holds something.
    """
    with tempfile.TemporaryDirectory(prefix="lego-rl-bench-") as temporary:
        place = folder or Path(temporary) / "evaluation"
        began = time.perf_counter()
        size = make_evaluation(place, trials, Texts(turns))
        made = time.perf_counter() - began
        first, second = (f"{place}:{cell.name}" for cell in _CELLS)
        measured = {
            "report": _measured(["eval", "report", str(place)]),
            "compare": _measured(["eval", "compare", first, second]),
            "analyse": _measured(["analyse", str(place)]),
        }
    found = {
        "trials": trials,
        "turns": turns,
        "text_mb_per_trial": round(size, 3),
        "processors": len(os.sched_getaffinity(0)),
        "seconds_making": round(made, 1),
        "seconds": {name: round(each.seconds, 1) for name, each in measured.items()},
        "cpu_seconds": {name: round(each.cpu_seconds, 1) for name, each in measured.items()},
        "peak_mb": {name: round(each.peak_mb) for name, each in measured.items()},
    }
    typer.echo(json.dumps(found, indent=2))


def make_evaluation(folder: Path, trials: int, texts: Texts) -> float:
    """Write an evaluation's folder of two cells.

    Args:
        folder: A new one.
        trials: Of both cells; a multiple of `_ATTEMPTS` for each is made of them, at least one task.
        texts: What was said in them.

    Returns:
        Text of the shortest of its first conversations, in megabytes.

    Raises:
        RunError: The folder holds something else.
    """
    tasks = [f"task-{number:04d}" for number in range(max(1, trials // len(_CELLS) // _ATTEMPTS))]
    Plan({"temperature": 1.0}, _ATTEMPTS, tuple(tasks), _CELLS).begin(folder)
    for at, cell in enumerate(_CELLS):
        directory = RunDirectory.make(folder / "cells" / cell.name / "0-of-1")
        directory.recipe.write_text("")
        with Journal(directory.journal) as journal:
            for number, (task, attempt) in enumerate((task, n) for task in tasks for n in range(_ATTEMPTS)):
                trial = _write_trial(directory, texts, task, attempt, at * trials + number)
                journal.append(SCORED, {"id": trial, "ended": Ended.FINISHED.value})
    sizes = [len(bz2.decompress(texts.document("x", number))) for number in range(4)]
    return min(sizes) / 1e6


def _write_trial(directory: RunDirectory, texts: Texts, task: str, attempt: int, number: int) -> str:
    """Write a trial's record; its id."""
    spec = TrialSpec(Path(task), "evaluation", attempt, _ATTEMPTS, number, 1.0, Budget(), HarnessChoice("claude-code"))
    folder = directory.trials / spec.id
    folder.mkdir()
    parts = {TRAJECTORY_FILE: texts.document(spec.id, number), CHAT_CALLS_FILE: _CALLS}
    for name, content in parts.items():
        (folder / name).write_bytes(content)
    head = OutcomeFile(
        format=FORMAT,
        spec=spec,
        outcome=Outcome(1 if number % 3 else 0, Ended.FINISHED, None, "the harness ended by itself"),
        seconds=PhaseSeconds(agent=300.0, total=330.0),
        accounting=texts.accounting,
        harness_version="1",
        harness_hash="",
        tries=1,
        parts={name: hashlib.sha256(content).hexdigest() for name, content in parts.items()},
    )
    (folder / OUTCOME_FILE).write_bytes(_OUTCOME.dump_json(head))
    (folder / "logs").mkdir()
    return spec.id


@dataclass
class _Measured:
    """What a command took.

    Attributes:
        seconds: From its start to its end.
        cpu_seconds: Of the processors, summed: what it takes whatever else the machine does.
        peak_mb: The most memory that it and all its processes held at a time, what they share counted once.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


def _measured(arguments: Sequence[str]) -> _Measured:
    found, began, used = _Measured(), time.perf_counter(), _used()
    start = "from lego_rl.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", start, *arguments], stdout=subprocess.DEVNULL) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, found, ended))
        watcher.start()
        status = process.wait()
        ended.set()
        watcher.join()
    found.seconds, found.cpu_seconds = time.perf_counter() - began, _used() - used
    if status:
        raise RunError(f"lego-rl {' '.join(arguments)} ended with {status}", "what it says stands above")
    return found


def _used() -> float:
    """Seconds of processors that commands which have ended took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watch(pid: int, found: _Measured, ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        found.peak_mb = max(found.peak_mb, sum(map(_held_mb, _family(pid))))


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
        children = [int(word) for thread in threads for word in (thread / "children").read_text().split()]
    except OSError:  # it has ended
        return []
    return [pid, *(each for child in children for each in _family(child))]


def _held_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it has ended
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
