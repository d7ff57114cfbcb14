"""Whether a batch of trials may be used: what stops a run whose faults nobody can explain, or that measures nothing."""

from collections import Counter
from collections.abc import Iterable

from lego_rl.errors import RunError
from lego_rl.rollout.faults import FAULT_TABLE, MOST_TRIES, Ended, Fault

MAX_UNATTRIBUTED = 0.05
"""Largest share of a batch's trials that may end without anyone known to be at fault."""


def is_unattributed(ended: Ended) -> bool:
    """Whether nobody is known to be at fault for how a trial ended."""
    return FAULT_TABLE[ended].fault is Fault.UNKNOWN


def too_many_unattributed(unattributed: int, trials: int) -> bool:
    """Whether more of a batch's trials than can be borne ended without anyone known to be at fault."""
    return unattributed > MAX_UNATTRIBUTED * trials


def check_batch(outcomes: Iterable[tuple[Ended, str]]) -> None:
    """Stop a run whose faults nobody can explain, or that measures nothing any more.

    Args:
        outcomes: Row and detail of every trial of a batch (a training step or an evaluation).

    Raises:
        RunError: More than `MAX_UNATTRIBUTED` of the batch is unattributed, or an infrastructure fault took all of it.
    """
    ended = list(outcomes)
    unknown = [detail for row, detail in ended if is_unattributed(row)]
    if too_many_unattributed(len(unknown), len(ended)):
        raise RunError(
            f"{len(unknown)} of {len(ended)} trials ended in a way that nobody is known to be at fault for: "
            f"{_most_common(unknown)}",
            "this is a bug in Lego-RL or in Harbor; the logs of the trials are in the run directory. "
            f"Once it is mended, the same command (train: --resume) runs them again, up to {MOST_TRIES} tries of each",
        )
    taken = [detail for row, detail in ended if FAULT_TABLE[row].fault is Fault.INFRASTRUCTURE]
    if ended and len(taken) == len(ended):
        raise RunError(
            f"infrastructure faults took all {len(ended)} trials: {_most_common(taken)}",
            "mend what the message names, and go on with the same command (train: --resume)",
        )


def _most_common(details: list[str]) -> str:
    return Counter(details).most_common(1)[0][0]
