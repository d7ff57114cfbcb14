"""What a model may be fine-tuned on, out of a run directory.

Invariant: no trial of a held-out evaluation is among it, whatever kind of run the directory holds, and none that an
infrastructure fault cut off.
"""

from collections.abc import Iterator
from pathlib import Path

from lego_rl.errors import RunError
from lego_rl.gateway.trajectory import Segment
from lego_rl.rollout.labels import may_be_learned_from
from lego_rl.rollout.selection_folder import SelectionFolder
from lego_rl.rollout.settled import settled_records
from lego_rl.rollout.store import RunDirectory


def demonstrated_segments(folder: Path) -> Iterator[Segment]:
    """The training sequences of every demonstration and training trial, in the order of the trials' ids.

    Args:
        folder: The run directory of a capture or of a training run, or a selection (``lego-rl export-sft``).

    Raises:
        RunError: The folder is no run directory, holds nothing to learn from or trials of a chat backend, or a record
            is damaged.
    """
    directory, selection = RunDirectory(folder), SelectionFolder(folder)
    if selection.exists:
        for record in selection.records():
            trajectory = record.sampled()
            yield from trajectory.segments if trajectory is not None else ()
        return
    if not directory.trials.is_dir() or not directory.journal.is_file():
        raise RunError(f"{folder} holds no captured trials", "name the run directory of a capture")
    empty = True
    for record in settled_records(directory):
        learned = may_be_learned_from(record.spec.label) and record.outcome.is_trained
        if learned and (trajectory := record.sampled()) is not None:
            empty = empty and not trajectory.segments
            yield from trajectory.segments
    if empty:
        raise RunError(
            f"{folder} holds nothing to learn from: trials of an evaluation do not count",
            "name the run directory of a capture, or of a training run with finished trials",
        )
