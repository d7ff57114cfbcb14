"""Reads the figures of a run's trials, in as many processes as there are processors.

Invariant: of a trial no token is read, and nothing of it is kept but its figures, so memory does not grow with the
length of what was said. The figures are a function of the trial's record, whichever process computes them.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from lego_rl.analysis.document import read_document
from lego_rl.analysis.figures import TrialFigures, figures_of
from lego_rl.analysis.tables import tool_table
from lego_rl.analysis.view import View, view_of
from lego_rl.children import begin_child
from lego_rl.errors import RunError
from lego_rl.evaluate.trials import EvaluatedTrial, run_directories
from lego_rl.gateway.store import TRAJECTORY_FILE
from lego_rl.rollout.journal import read_journal
from lego_rl.rollout.settled import settled_trials
from lego_rl.rollout.trial_folder import TrialFolder

_MOST_PROCESSES = 8
_FEW = 64
"""So many trials are read sooner than a process has begun."""
_CHUNK = 16
_NOTHING_SAID = View("", (), 0, 0)


@dataclass(frozen=True)
class TrialPlace:
    """Where a trial's record lies.

    Attributes:
        folder: Its folder.
        trial: What its outcome says.
    """

    folder: Path
    trial: EvaluatedTrial


def trial_places(run: Path) -> list[TrialPlace]:
    """Every trial that a run's journals count, in the order of their ids.

    Args:
        run: A run directory, or that of a run on verl.

    Raises:
        RunError: It is no run, or its journal or a record is damaged.
    """
    found = [
        TrialPlace(directory.trials / name, EvaluatedTrial.of(name, directory.store.folder(name).head))
        for directory in run_directories(run)
        for name in settled_trials(read_journal(directory.journal))
    ]
    return sorted(found, key=lambda place: place.trial.id)


def read_figures(places: Sequence[TrialPlace]) -> list[TrialFigures]:
    """The figures of trials, in their order.

    Raises:
        RunError: A record is damaged, or a process was killed.
        ConfigError: A harness is unknown.
    """
    return list(_figures(places))


def figures_at(place: TrialPlace) -> TrialFigures:
    """The figures of one trial; raises as `read_figures` does."""
    folder = TrialFolder(place.folder, place.trial.id)
    head, text, patch = folder.head, folder.conversations(), folder.patch()
    view = _NOTHING_SAID
    if text is not None:
        document = read_document(place.folder / TRAJECTORY_FILE, text)
        view = view_of(document, tool_table(head.spec.harness.name))
    patched = [change.path for change in patch.changes] if patch is not None else []
    return figures_of(place.trial, view, head.accounting.tool_parse_faults, patched)


def _figures(places: Sequence[TrialPlace]) -> Iterator[TrialFigures]:
    processes = min(_MOST_PROCESSES, len(os.sched_getaffinity(0)), len(places) // _FEW)
    if processes < 2:
        yield from map(figures_at, places)
        return
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), begin_child, (os.getpid(),)) as pool:
            yield from pool.map(figures_at, places, chunksize=_CHUNK)
    except BrokenProcessPool as error:
        raise RunError("a process that reads trials was killed", "look at the memory of this machine") from error
