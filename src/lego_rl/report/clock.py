"""How long trials were at work, from the journal: a run may be stopped and resumed days later."""

from collections.abc import Iterable

from lego_rl.rollout.journal import Entry
from lego_rl.rollout.settled import STARTED


def active_seconds(journal: Iterable[Entry], label: str) -> float:
    """Seconds in which at least one trial of a label was running.

    A process that was killed says nothing of its end; its last trials are started again by the next one, and the time
    up to there does not count.

    Args:
        journal: Entries in order.
        label: How the label begins, such as ``train/`` or ``heldout/before``.
    """
    prefix = label.replace("/", ".")
    running: set[str] = set()
    total, last = 0.0, 0.0
    for entry in journal:
        trial = str(entry.data.get("id", ""))
        if not trial.startswith(prefix):
            continue
        if entry.kind == STARTED and trial in running:
            running.clear()
        if running:
            total += entry.at - last
        last = entry.at
        if entry.kind == STARTED:
            running.add(trial)
        else:
            running.discard(trial)
    return total
