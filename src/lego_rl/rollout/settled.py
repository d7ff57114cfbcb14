"""Which trials count: what the journal says of each last.

Invariant: whoever reads the records of a run asks here which of them to read. A record on the disk is not enough, for a
process can end between writing it and saying so; and where a later try has begun, the one before counts no more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE, Ended, Fault
from lego_rl.rollout.journal import Entry, read_journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.store import RunDirectory

STARTED, SCORED, FAULTED, CANCELLED = "trial-started", "trial-scored", "trial-faulted", "trial-cancelled"
"""Kinds of journal entries; each names the trial and which try it was."""
REOPENED = "trials-reopened"
"""Names the trials that are to be run again, because a bug took so many that it stopped their batch; those of them
that have had all their tries stay as they are."""
STOPPED = "batch-stopped"
"""Names the trials of a batch that an infrastructure took: once it is mended, every trial has all its tries again."""


@dataclass(frozen=True)
class Settled:
    """A trial that has come to an end.

    Attributes:
        kind: `SCORED`, or `FAULTED` where it counts for nothing.
        ended: The row of the fault table.
    """

    kind: str
    ended: Ended


def settled_trials(journal: Iterable[Entry]) -> dict[str, Settled]:
    """Every trial that has come to an end, by id.

    Args:
        journal: Entries in order.

    Raises:
        RunError: A row is of another version's fault table.
    """
    found: dict[str, Settled] = {}
    for entry in journal:
        trial = str(entry.data.get("id", ""))
        if entry.kind in (SCORED, FAULTED):
            found[trial] = Settled(entry.kind, _row(entry))
        elif entry.kind == REOPENED:
            for name in _ids(entry):
                found.pop(name, None)
        elif entry.kind in (STARTED, CANCELLED):
            found.pop(trial, None)
    return found


def faulted_tries(journal: Iterable[Entry]) -> Counter[str]:
    """Tries that faults took of every trial, by id, since it was last given all its tries again.

    Args:
        journal: Entries in order.
    """
    found: Counter[str] = Counter()
    for entry in journal:
        if entry.kind == FAULTED:
            found[str(entry.data["id"])] += 1
        elif entry.kind in (REOPENED, STOPPED):
            for name in _ids(entry):
                del found[name]
    return found


def unattributed_tries(journal: Iterable[Entry]) -> Counter[str]:
    """Tries of every trial that nobody is known to be at fault for, by id. None of them is ever forgotten: what an
    agent may bring about must not give it one try after the other.

    Args:
        journal: Entries in order.

    Raises:
        RunError: A row is of another version's fault table.
    """
    ended = (entry for entry in journal if entry.kind in (SCORED, FAULTED))
    return Counter(str(entry.data["id"]) for entry in ended if FAULT_TABLE[_row(entry)].fault is Fault.UNKNOWN)


def _ids(entry: Entry) -> list[str]:
    ids = entry.data["ids"]
    return [str(name) for name in ids] if isinstance(ids, list) else []


def _row(entry: Entry) -> Ended:
    try:
        return Ended(str(entry.data["ended"]))
    except ValueError as error:
        raise RunError(
            f"the journal says that a trial ended in {entry.data['ended']!r}, which is no row of the fault table",
            "read it with the version of lego-rl that wrote it",
        ) from error


def settled_records(directory: RunDirectory) -> Iterator[TrialRecord]:
    """The records of a run that count, in the order of the trials' ids.

    Raises:
        RunError: The journal or a record cannot be read, or is damaged.
    """
    return map(directory.store.load, sorted(settled_trials(read_journal(directory.journal))))
