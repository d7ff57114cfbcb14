"""Which trials count: what the journal says of each last.

Invariant: whoever reads the records of a run asks here which of them to read. A record on the disk is not enough, for a
process can end between writing it and saying so; and where a later try has begun, the one before counts no more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lego_rl.rollout.faults import Ended
from lego_rl.rollout.journal import Entry, read_journal
from lego_rl.rollout.outcome import TrialRecord
from lego_rl.rollout.store import RunDirectory

STARTED, SCORED, FAULTED, CANCELLED = "trial-started", "trial-scored", "trial-faulted", "trial-cancelled"
"""Kinds of journal entries; each names the trial and which try it was."""
REOPENED = "trials-reopened"
"""Names the trials that are to be run again, because a bug took so many that it stopped their batch."""


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
    """
    found: dict[str, Settled] = {}
    for entry in journal:
        trial = str(entry.data.get("id", ""))
        if entry.kind in (SCORED, FAULTED):
            found[trial] = Settled(entry.kind, Ended(str(entry.data["ended"])))
        elif entry.kind == REOPENED:
            reopened = entry.data["ids"]
            for name in reopened if isinstance(reopened, list) else []:
                found.pop(str(name), None)
        else:
            found.pop(trial, None)
    return found


def settled_records(directory: RunDirectory) -> Iterator[TrialRecord]:
    """The records of a run that count, in the order of the trials' ids.

    Raises:
        RunError: The journal or a record cannot be read, or is damaged.
    """
    return map(directory.store.load, sorted(settled_trials(read_journal(directory.journal))))
